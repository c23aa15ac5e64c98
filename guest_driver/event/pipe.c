// SPDX-License-Identifier: GPL-2.0
/* per_cpu/cpuN/trace_pipe_raw: a ring's sub-buffers, in Linux' own format. */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <linux/uio.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/read_files.h"

#define IOCTL_GET_READER	_IO('R', 0x20)	/* TRACE_MMAP_IOCTL_GET_READER */
#define IOCTL_WAKE		0

/* An open file. */
struct pipe {
	struct braid_read_files *files;
	struct braid_guest_reader *reader;
	struct braid_reader_hold hold;
	struct mutex lock;		/* of what follows */
	u8 *page;			/* the last page read; NULL: none yet */
	u32 page_bytes;
	u32 given;			/* of it, to the user */
};

static int braid_pipe_open(struct inode *inode, struct file *file)
{
	struct braid_read_cpu *c = inode->i_private;
	struct pipe *pipe = kzalloc(sizeof(*pipe), GFP_KERNEL);

	if (!pipe)
		return -ENOMEM;
	/* debugfs lets no file go while it is being opened. */
	pipe->reader = braid_reader_get(c->files->buffer, c->cpu);
	if (!pipe->reader) {
		kfree(pipe);
		return -ENOMEM;
	}
	pipe->files = c->files;
	kref_get(&pipe->files->kref);
	mutex_init(&pipe->lock);
	file->private_data = pipe;
	return nonseekable_open(inode, file);
}

static int braid_pipe_release(struct inode *inode, struct file *file)
{
	struct pipe *pipe = file->private_data;
	int index;

	if (braid_read_enter(pipe->files, &index)) {
		braid_reader_let_go(pipe->reader, &pipe->hold);
		braid_read_leave(pipe->files, index);
	}
	braid_reader_put(pipe->reader);
	braid_read_files_put(pipe->files);
	kvfree(pipe->page);
	kfree(pipe);
	return 0;
}

static int braid_pipe_make_page(struct pipe *pipe, u32 bytes)
{
	if (pipe->page && pipe->page_bytes == bytes)
		return 0;
	kvfree(pipe->page);
	pipe->page = kvmalloc(bytes, GFP_KERNEL);
	pipe->page_bytes = pipe->given = pipe->page ? bytes : 0;
	return pipe->page ? 0 : -ENOMEM;
}

/* Reads a page of events. Return: 1, 0 when the ring is empty, or -errno. */
static int braid_pipe_take_page(struct pipe *pipe, size_t count)
{
	u32 bytes;
	int ret, index;

	if (!braid_read_enter(pipe->files, &index))
		return -ENODEV;
	ret = braid_reader_subbuf_bytes(pipe->reader);
	if (ret > 0) {
		bytes = ret;
		ret = braid_pipe_make_page(pipe, bytes) ?:
		      braid_reader_read_page(pipe->reader, &pipe->hold, pipe->page,
					     min_t(size_t, count, bytes), &bytes);
	}
	braid_read_leave(pipe->files, index);
	return ret;
}

/*
 * Waits for any wake-up of this ring, not only for events. No lock is held meanwhile: the buffer
 * may be removed.
 */
static int braid_pipe_wait(struct pipe *pipe, u32 wakes)
{
	struct braid_guest_reader *r = pipe->reader;

	return wait_event_interruptible(*braid_reader_queue(r),
					braid_reader_wakes(r) != wakes ||
					!READ_ONCE(pipe->files->buffer));
}

static ssize_t braid_pipe_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct pipe *pipe = iocb->ki_filp->private_data;
	bool wait = !(iocb->ki_filp->f_flags & O_NONBLOCK) && !(iocb->ki_flags & IOCB_NOWAIT);
	size_t count = iov_iter_count(to), done;
	ssize_t ret = 1;
	u32 wakes;

	if (!count)
		return 0;
	mutex_lock(&pipe->lock);
	while (pipe->given == pipe->page_bytes) {
		wakes = braid_reader_wakes(pipe->reader);
		ret = braid_pipe_take_page(pipe, count);
		if (ret > 0)
			pipe->given = 0;
		if (ret == -ESTALE)
			continue;
		if (ret)
			break;
		mutex_unlock(&pipe->lock);
		ret = wait ? braid_pipe_wait(pipe, wakes) : -EAGAIN;
		if (ret)
			return ret;
		mutex_lock(&pipe->lock);
	}
	if (ret > 0) {
		done = copy_to_iter(pipe->page + pipe->given,
				    min_t(size_t, count, pipe->page_bytes - pipe->given), to);
		pipe->given += done;
		ret = done ?: -EFAULT;
	}
	mutex_unlock(&pipe->lock);
	return ret == -ENOSPC ? 0 : ret;	/* as tracefs says of too small a count */
}

/* Whether a read would return data or an error. */
static int braid_pipe_ready(struct pipe *pipe)
{
	int index, ret = -ENODEV;

	if (READ_ONCE(pipe->given) != READ_ONCE(pipe->page_bytes))
		return 1;
	if (braid_read_enter(pipe->files, &index)) {
		ret = braid_reader_ready(pipe->reader, &pipe->hold);
		braid_read_leave(pipe->files, index);
	}
	return ret;
}

static ssize_t braid_pipe_splice_read(struct file *file, loff_t *at, struct pipe_inode_info *to,
				      size_t count, unsigned int flags)
{
	struct pipe *pipe = file->private_data;

	if (flags & SPLICE_F_NONBLOCK && !braid_pipe_ready(pipe))
		return -EAGAIN;
	return braid_splice_copy(file, at, to, count, flags);
}

static __poll_t braid_pipe_poll(struct file *file, poll_table *table)
{
	struct pipe *pipe = file->private_data;
	int ret;

	poll_wait(file, braid_reader_queue(pipe->reader), table);
	ret = braid_pipe_ready(pipe);
	if (!ret)
		return 0;
	return EPOLLIN | EPOLLRDNORM | (ret < 0 ? EPOLLERR : 0);
}

static long braid_pipe_get_reader(struct file *file)
{
	struct pipe *pipe = file->private_data;
	u32 wakes = braid_reader_wakes(pipe->reader);
	int index, err = 0;

	for (;;) {
		if (!braid_read_enter(pipe->files, &index))
			return -ENODEV;
		err = braid_reader_advance(pipe->reader);
		braid_read_leave(pipe->files, index);
		/* A wake-up without an event returns no data. */
		if (err || file->f_flags & O_NONBLOCK || braid_reader_wakes(pipe->reader) != wakes)
			return min(err, 0);
		err = braid_pipe_wait(pipe, wakes);
		if (err)
			return err;
	}
}

static long braid_pipe_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct pipe *pipe = file->private_data;

	switch (command) {
	case IOCTL_GET_READER:
		return braid_pipe_get_reader(file);
	case IOCTL_WAKE:
		braid_reader_wake(pipe->reader);
		return 0;
	}
	return -ENOTTY;
}

static int braid_pipe_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct pipe *pipe = file->private_data;
	int index, err = -ENODEV;

	if (braid_read_enter(pipe->files, &index)) {
		err = braid_reader_map(pipe->reader, vma);
		braid_read_leave(pipe->files, index);
	}
	return err;
}

const struct file_operations braid_pipe_fops = {
	.owner = THIS_MODULE,
	.open = braid_pipe_open,
	.release = braid_pipe_release,
	.read_iter = braid_pipe_read_iter,
	.splice_read = braid_pipe_splice_read,
	.poll = braid_pipe_poll,
	.unlocked_ioctl = braid_pipe_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = braid_pipe_mmap,
};
