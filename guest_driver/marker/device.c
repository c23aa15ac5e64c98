// SPDX-License-Identifier: GPL-2.0
/* /dev/tracebraid: each write is an event in the ring of the writer's CPU. */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "guest_driver/event/event.h"
#include "guest_driver/marker/declaration.h"
#include "guest_driver/marker/marker.h"

#define SYSTEM		"user"
#define STACK_BYTES	256	/* larger records are copied elsewhere */
#define TEXT		"marker char text[]"
#define TRACED_TEXT	"traced_marker u8 trace_id[16]; char text[]"
#define TRACE_ID	"trace_id="
#define TRACE_ID_CHARS	(2 * BRAID_TRACE_ID_BYTES)

/* An event, which programs may have open. */
struct marker_event {
	struct braid_marker_declaration declaration;
	struct braid_event_desc desc;
	u16 id;
	u32 nr_open;
};

/* An open file. */
struct marker_file {
	const struct marker_event *event;	/* NULL: texts */
};

static DEFINE_MUTEX(marker_lock);	/* of events and ->nr_open */
static struct marker_event *events[BRAID_MARKER_EVENTS];
static const struct marker_event *text_event, *traced_event;	/* always open */

/* Events ----------------------------------------------------------------------------------- */

/* Must hold marker_lock; or an event of this id is being printed, and stays. */
static struct marker_event *braid_device_find(u16 id)
{
	struct marker_event *event;
	u32 k;

	for (k = 0; k < BRAID_MARKER_EVENTS; k++) {
		event = READ_ONCE(events[k]);
		if (event && event->id == id)
			return event;
	}
	return NULL;
}

static int braid_device_print(struct seq_file *out, const struct braid_item *item)
{
	const struct braid_record *record = item->payload;
	const struct marker_event *event;

	if (item->payload_bytes < sizeof(*record))
		return -EINVAL;
	event = braid_device_find(record->common_type);
	if (!event)
		return -EINVAL;
	braid_marker_print(out, &event->declaration, (const u8 *)(record + 1),
			   item->payload_bytes - sizeof(*record));
	return 0;
}

/* Of a declaration, which it takes over if it succeeds. Must hold marker_lock. */
static struct marker_event *braid_device_add(struct braid_marker_declaration *d, u32 at)
{
	struct marker_event *event = kzalloc(sizeof(*event), GFP_KERNEL);
	int id;

	if (!event)
		return ERR_PTR(-ENOMEM);
	event->declaration = *d;
	event->desc = (struct braid_event_desc){
		.system = SYSTEM, .name = d->name, .fields = d->format, .print_fmt = d->print_fmt,
		.outputs.trace = braid_device_print,
	};
	id = braid_register_event(NULL, 0, &event->desc);
	if (id < 0) {
		kfree(event);
		return ERR_PTR(id);
	}
	event->id = id;
	WRITE_ONCE(events[at], event);
	return event;
}

/* Must hold marker_lock. */
static void braid_device_remove(u32 at)
{
	struct marker_event *event = events[at];

	/* First: printers of other events look at it, and unregistering waits for them. */
	WRITE_ONCE(events[at], NULL);
	braid_unregister_event(NULL, event->id);
	braid_marker_forget(&event->declaration);
	kfree(event);
}

/* The event of a declaration, now open once more. It takes the declaration over or frees it. */
static struct marker_event *braid_device_open_event(struct braid_marker_declaration *d)
{
	struct marker_event *event = NULL;
	u32 k, at = BRAID_MARKER_EVENTS;

	mutex_lock(&marker_lock);
	for (k = 0; k < BRAID_MARKER_EVENTS && !event; k++) {
		if (!events[k])
			at = min(at, k);
		else if (!strcmp(events[k]->declaration.name, d->name))
			event = events[at = k];
	}
	if (event && braid_marker_equal(&event->declaration, d)) {
		braid_marker_forget(d);
	} else if (event && event->nr_open) {
		event = ERR_PTR(-EEXIST);
	} else {
		if (event)
			braid_device_remove(at);
		event = at < BRAID_MARKER_EVENTS ? braid_device_add(d, at) : ERR_PTR(-ENOSPC);
	}
	if (IS_ERR(event))
		braid_marker_forget(d);
	else
		event->nr_open++;
	mutex_unlock(&marker_lock);
	return event;
}

static struct marker_event *braid_device_declare(const char *text)
{
	struct braid_marker_declaration d;
	int err = braid_marker_parse(&d, text);

	if (!err)
		return braid_device_open_event(&d);
	braid_marker_forget(&d);
	return ERR_PTR(err);
}

/* Writing ---------------------------------------------------------------------------------- */

static bool braid_device_fits(const struct marker_event *event, size_t bytes)
{
	const struct braid_marker_declaration *d = &event->declaration;

	return bytes == d->bytes || (d->has_tail && bytes > d->bytes);
}

/* "trace_id=" and 32 digits of a W3C trace id, before a space or the end. */
static bool braid_device_has_trace_id(const char *text, u8 *id)
{
	const char *digits = text + strlen(TRACE_ID);

	return !strncmp(text, TRACE_ID, strlen(TRACE_ID)) &&
	       strnlen(digits, TRACE_ID_CHARS) == TRACE_ID_CHARS &&
	       (!digits[TRACE_ID_CHARS] || digits[TRACE_ID_CHARS] == ' ') &&
	       !hex2bin(id, digits, BRAID_TRACE_ID_BYTES);
}

/* A text, to which a 0 is added; one that has a trace id is another event, with that as a field. */
static int braid_device_write_text(char *text, size_t bytes)
{
	const struct marker_event *event = text_event;
	u8 id[BRAID_TRACE_ID_BYTES];
	size_t skipped = strlen(TRACE_ID) + TRACE_ID_CHARS;

	if (bytes && text[bytes - 1] == '\n')
		bytes--;
	text[bytes] = 0;
	if (braid_device_has_trace_id(text, id)) {
		skipped += text[skipped] == ' ';
		/* The id is put before the text: it is shorter than its digits. */
		text += skipped - sizeof(id);
		bytes -= skipped - sizeof(id);
		memcpy(text, id, sizeof(id));
		event = traced_event;
	}
	return braid_record_event(NULL, event->id, bytes + 1, text);
}

/* @event: NULL: a text. @record has room for one more byte. */
static int braid_device_record(const struct marker_event *event, u8 *record, size_t bytes)
{
	if (!event)
		return braid_device_write_text((char *)record, bytes);
	record[bytes] = 0;
	return braid_record_event(NULL, event->id, bytes + event->declaration.has_tail, record);
}

/* An event that is off is no error, and one that the full ring drops is counted there. */
static ssize_t braid_device_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct marker_file *file = iocb->ki_filp->private_data;
	const struct marker_event *event = smp_load_acquire(&file->event);
	size_t bytes = iov_iter_count(from);
	u8 local[STACK_BYTES], *record = local;
	int err = 0;

	if (bytes > BRAID_MARKER_BYTES)
		return -EMSGSIZE;
	if (event && !braid_device_fits(event, bytes))
		return -EINVAL;
	if (bytes >= sizeof(local))
		record = kmalloc(bytes + 1, GFP_KERNEL);
	if (!record)
		return -ENOMEM;
	if (!copy_from_iter_full(record, bytes, from))
		err = -EFAULT;
	else
		err = braid_device_record(event, record, bytes);
	if (record != local)
		kfree(record);
	return err && err != -EAGAIN && err != -ENOSPC ? err : bytes;
}

static long braid_device_ioctl(struct file *filp, unsigned int command, unsigned long arg)
{
	struct marker_file *file = filp->private_data;
	struct marker_event *event;
	char *text;
	long err = 0;

	if (command != BRAID_MARKER_DECLARE)
		return -ENOTTY;
	text = strndup_user((const char __user *)arg, BRAID_MARKER_TEXT);
	if (IS_ERR(text))
		return PTR_ERR(text);
	event = braid_device_declare(text);
	kfree(text);
	if (IS_ERR(event))
		return PTR_ERR(event);
	mutex_lock(&marker_lock);
	if (file->event) {
		event->nr_open--;
		err = -EBUSY;
	} else {
		smp_store_release(&file->event, event);
	}
	mutex_unlock(&marker_lock);
	return err;
}

static int braid_device_open(struct inode *inode, struct file *filp)
{
	filp->private_data = kzalloc(sizeof(struct marker_file), GFP_KERNEL);
	return filp->private_data ? nonseekable_open(inode, filp) : -ENOMEM;
}

static int braid_device_release(struct inode *inode, struct file *filp)
{
	struct marker_file *file = filp->private_data;

	mutex_lock(&marker_lock);
	if (file->event)
		((struct marker_event *)file->event)->nr_open--;
	mutex_unlock(&marker_lock);
	kfree(file);
	return 0;
}

static const struct file_operations marker_fops = {
	.owner = THIS_MODULE,
	.open = braid_device_open,
	.release = braid_device_release,
	.write_iter = braid_device_write_iter,
	.unlocked_ioctl = braid_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* Whoever may write can fill the rings: the guest's administrator permits it to others. */
static struct miscdevice marker_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tracebraid",
	.mode = 0200,
	.fops = &marker_fops,
};

/* ------------------------------------------------------------------------------------------ */

static void braid_device_remove_all(void)
{
	u32 k;

	mutex_lock(&marker_lock);
	for (k = 0; k < BRAID_MARKER_EVENTS; k++)
		if (events[k])
			braid_device_remove(k);
	mutex_unlock(&marker_lock);
}

int braid_marker_init(void)
{
	const struct marker_event *text, *traced;
	int err;

	text = braid_device_declare(TEXT);
	traced = IS_ERR(text) ? text : braid_device_declare(TRACED_TEXT);
	err = PTR_ERR_OR_ZERO(traced);
	text_event = text;
	traced_event = traced;
	if (!err)
		err = misc_register(&marker_device);
	if (err)
		braid_device_remove_all();
	return err;
}

void braid_marker_exit(void)
{
	misc_deregister(&marker_device);
	braid_device_remove_all();
}
