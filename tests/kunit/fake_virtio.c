// SPDX-License-Identifier: GPL-2.0
/* Acts as a device that uses the kernel's own virtqueues. */
#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "guest_driver/compat.h"
#include "shared/platform.h"
#include "tests/kunit/fake_virtio.h"
#include "tracebraid/abi.h"

#define QUEUE_SIZE	16

struct braid_fake_virtio braid_fake_virtio;

struct queue {
	void *memory;
	struct vring vring;		/* the device's view */
	struct virtqueue *driver;	/* the other end */
	u16 taken;
	atomic_t notified;
};

static struct queue queues[BRAID_VIRTIO_NR_QUEUES];
static struct virtio_device *device;
static struct device *parent;	/* the bus's device, which each virtio device has */
static u8 device_status;
static int kept;			/* head of the ANNOUNCE that the device holds; -1: none */

/* The device's end ------------------------------------------------------------------ */

static bool take(struct queue *queue, u16 *head)
{
	if (queue->taken == virt_load_acquire(&queue->vring.avail->idx))
		return false;
	*head = queue->vring.avail->ring[queue->taken++ % QUEUE_SIZE];
	return true;
}

static void give_back(struct queue *queue, u16 head, u32 bytes)
{
	struct vring_used *used = queue->vring.used;

	used->ring[used->idx % QUEUE_SIZE] = (struct vring_used_elem){ head, bytes };
	virt_store_release(&used->idx, (u16)(used->idx + 1));
}

/* As in an interrupt. */
static void interrupt(struct queue *queue)
{
	unsigned long flags;

	local_irq_save(flags);
	vring_interrupt(0, queue->driver);
	local_irq_restore(flags);
}

void *braid_fake_virtio_region(void)
{
	return phys_to_virt(le64_to_cpu(braid_fake_virtio.chunks[0].address));
}

static void announce(struct queue *queue, u16 head, const struct braid_virtio_control *control,
		     struct braid_virtio_status *status)
{
	struct braid_fake_virtio *fake = &braid_fake_virtio;

	fake->announced++;
	fake->nr_chunks = min_t(u32, le32_to_cpu(control->nr_chunks), BRAID_FAKE_CHUNKS);
	memcpy(fake->chunks, control + 1, fake->nr_chunks * sizeof(fake->chunks[0]));
	if (!fake->refuse) {
		kept = head;
		return;
	}
	if (fake->result_bytes)
		status->result = cpu_to_le32(fake->result);
	give_back(queue, head, fake->result_bytes);
}

static void revoke(struct queue *queue, u16 head, struct braid_virtio_status *status)
{
	const struct braid_superblock *sb = braid_fake_virtio_region();

	braid_fake_virtio.revoked++;
	braid_fake_virtio.state_at_revoke = sb->state;
	if (braid_fake_virtio.deaf)
		return;
	if (kept >= 0)
		give_back(queue, kept, 0);
	kept = -1;
	status->result = cpu_to_le32(BRAID_VIRTIO_OK);
	give_back(queue, head, sizeof(*status));
}

static void serve_control(struct queue *queue)
{
	u16 head;

	while (take(queue, &head)) {
		const struct vring_desc *out = &queue->vring.desc[head];
		const struct vring_desc *in = &queue->vring.desc[out->next];
		const struct braid_virtio_control *control = phys_to_virt(out->addr);
		struct braid_virtio_status *status = phys_to_virt(in->addr);

		if (control->command == cpu_to_le32(BRAID_VIRTIO_ANNOUNCE))
			announce(queue, head, control, status);
		else
			revoke(queue, head, status);
	}
	interrupt(queue);
}

int braid_fake_virtio_notified(void)
{
	return atomic_read(&queues[BRAID_VIRTIO_NOTIFYQ].notified);
}

u32 braid_fake_virtio_offered(void)
{
	const struct queue *queue = &queues[BRAID_VIRTIO_NOTIFYQ];

	return (u16)(virt_load_acquire(&queue->vring.avail->idx) - queue->taken);
}

bool braid_fake_virtio_notice(u32 event, u32 bytes)
{
	struct queue *queue = &queues[BRAID_VIRTIO_NOTIFYQ];
	struct braid_virtio_notice *notice;
	u16 head;

	if (!take(queue, &head))
		return false;
	notice = phys_to_virt(queue->vring.desc[head].addr);
	notice->event = cpu_to_le32(event);
	give_back(queue, head, bytes);
	interrupt(queue);
	return true;
}

/* The transport ------------------------------------------------------------------------- */

static bool notify(struct virtqueue *vq)
{
	struct queue *queue = &queues[vq->index];

	atomic_inc(&queue->notified);
	if (vq->index == BRAID_VIRTIO_CONTROLQ)
		serve_control(queue);
	return true;
}

static void fake_get(struct virtio_device *vdev, unsigned int offset, void *to, unsigned int bytes)
{
	memcpy(to, (void *)&braid_fake_virtio.config + offset, bytes);
}

static u8 fake_get_status(struct virtio_device *vdev)
{
	return device_status;
}

static void fake_set_status(struct virtio_device *vdev, u8 status)
{
	device_status = status;
}

static void fake_reset(struct virtio_device *vdev)
{
	device_status = 0;
}

static u64 fake_get_features(struct virtio_device *vdev)
{
	return (braid_fake_virtio.legacy ? 0 : BIT_ULL(VIRTIO_F_VERSION_1)) |
	       (braid_fake_virtio.translated ? BIT_ULL(VIRTIO_F_ACCESS_PLATFORM) : 0) |
	       BIT_ULL(BRAID_VIRTIO_F_NOTIFY);
}

static int fake_finalize_features(struct virtio_device *vdev)
{
	vring_transport_features(vdev);
	return 0;
}

static void fake_del_vqs(struct virtio_device *vdev)
{
	struct virtqueue *vq, *next;

	list_for_each_entry_safe(vq, next, &vdev->vqs, list)
		vring_del_virtqueue(vq);
}

static struct virtqueue *make_queue(struct virtio_device *vdev, unsigned int index,
				    const char *name, vq_callback_t *callback)
{
	struct queue *queue = &queues[index];

	memset(queue->memory, 0, PAGE_ALIGN(vring_size(QUEUE_SIZE, PAGE_SIZE)));
	vring_init(&queue->vring, QUEUE_SIZE, queue->memory, PAGE_SIZE);
	queue->taken = 0;
	atomic_set(&queue->notified, 0);
	queue->driver = vring_new_virtqueue(index, QUEUE_SIZE, PAGE_SIZE, vdev, true, false,
					    queue->memory, notify, callback, name);
	return queue->driver;
}

#if BRAID_HAVE_VIRTQUEUE_INFO
static int fake_find_vqs(struct virtio_device *vdev, unsigned int nr, struct virtqueue *vqs[],
			 struct virtqueue_info info[], struct irq_affinity *affinity)
#else
static int fake_find_vqs(struct virtio_device *vdev, unsigned int nr, struct virtqueue *vqs[],
			 vq_callback_t *callbacks[], const char * const names[], const bool *ctx,
			 struct irq_affinity *affinity)
#endif
{
	unsigned int k;

	if (braid_fake_virtio.no_queues)
		return -ENOENT;
	for (k = 0; k < nr; k++) {
#if BRAID_HAVE_VIRTQUEUE_INFO
		vqs[k] = make_queue(vdev, k, info[k].name, info[k].callback);
#else
		vqs[k] = make_queue(vdev, k, names[k], callbacks[k]);
#endif
		if (!vqs[k]) {
			fake_del_vqs(vdev);
			return -ENOMEM;
		}
	}
	return 0;
}

static const struct virtio_config_ops fake_ops = {
	.get = fake_get,
	.get_status = fake_get_status,
	.set_status = fake_set_status,
	.reset = fake_reset,
	.get_features = fake_get_features,
	.finalize_features = fake_finalize_features,
	.find_vqs = fake_find_vqs,
	.del_vqs = fake_del_vqs,
};

static void release(struct device *dev)
{
	kfree(dev_to_virtio(dev));
}

static void free_queues(void)
{
	int k;

	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		free_pages_exact(queues[k].memory, vring_size(QUEUE_SIZE, PAGE_SIZE));
	memset(queues, 0, sizeof(queues));
}

static int make_device(void)
{
	int k, err;

	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		queues[k].memory = alloc_pages_exact(vring_size(QUEUE_SIZE, PAGE_SIZE), GFP_KERNEL);
		if (!queues[k].memory)
			return -ENOMEM;
	}
	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	device->config = &fake_ops;
	device->id.device = BRAID_VIRTIO_ID;
	device->dev.release = release;
	device->dev.parent = parent;
	err = register_virtio_device(device);
	if (err)
		put_device(&device->dev);
	return err;
}

bool braid_fake_virtio_plug(void)
{
	kept = -1;
	/* Without a module: on 6.1 the suites run before this one has its place in sysfs. */
	parent = __root_device_register("braid_fake_bus", NULL);
	if (IS_ERR(parent))
		return false;
	if (make_device()) {
		device = NULL;
		free_queues();
		root_device_unregister(parent);
		return false;
	}
	return device->dev.driver;
}

/* A kernel without suspend, such as user-mode Linux, does not have the core's functions. */
static struct virtio_driver *driver(void)
{
	return container_of(device->dev.driver, struct virtio_driver, driver);
}

int braid_fake_virtio_freeze(void)
{
	return driver()->freeze(device);
}

int braid_fake_virtio_restore(void)
{
	kept = -1;
	virtio_reset_device(device);
	return driver()->restore(device);
}

void braid_fake_virtio_unplug(void)
{
	if (!device)
		return;
	unregister_virtio_device(device);
	device = NULL;
	free_queues();
	root_device_unregister(parent);
}
