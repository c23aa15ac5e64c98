// SPDX-License-Identifier: GPL-2.0
/* virtio: the guest's own pages, announced to a device of type "trace" (docs/virtio-device.md). */
#define pr_fmt(fmt) "tracebraid_virtio: " fmt

#include <linux/cc_platform.h>
#include <linux/crash_dump.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/stringify.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "guest_driver/compat.h"
#include "guest_driver/transport/transport.h"
#include "tracebraid/virtio.h"

#define DEFAULT_BYTES		(16u << 20)
#define CHUNK_ORDER_MOST	10	/* what every kernel's allocator has */
#define CHUNKS_MOST		1024	/* their list is contiguous */
#define NR_NOTICES		8
#define GIVE_BACK_WAIT		(2 * HZ)

static ushort virtio_id = BRAID_VIRTIO_ID;
module_param(virtio_id, ushort, 0444);
MODULE_PARM_DESC(virtio_id, "virtio device id to bind to (default " __stringify(BRAID_VIRTIO_ID)
		 "), for hosts that only offer ids they know (QEMU: " __stringify(BRAID_VIRTIO_ID_QEMU) ")");

static uint virtio_size_mb;
module_param(virtio_size_mb, uint, 0444);
MODULE_PARM_DESC(virtio_size_mb, "MiB to share; 0: the size that the device requests, or 16 (default)");

static const struct braid_transport_client *client;

/* The only two buffers of the controlq, in memory that lives as long as the device. */
struct request {
	struct braid_virtio_status status;
	bool there;			/* the device has it */
	struct braid_virtio_control *control;
	size_t control_bytes;
};

struct pages {
	void *base;			/* all chunks, mapped in sequence */
	u64 bytes;
	u32 nr_chunks;
	struct page *first[CHUNKS_MOST];
	u8 order[CHUNKS_MOST];
};

struct trace_device {
	struct virtio_device *vdev;
	struct virtqueue *queues[BRAID_VIRTIO_NR_QUEUES];	/* NULL while the device sleeps */
	struct braid_virtio_config config;
	struct pages pages;
	spinlock_t control_lock;	/* of the controlq and the requests */
	wait_queue_head_t given_back;
	struct request announce, revoke;
	struct mutex sharing;		/* held while the client gets or releases the range */
	bool attached;			/* the client has it */
	bool leaving;
	struct work_struct let_go;	/* the device returned the pages without a request */
	struct braid_virtio_notice notices[NR_NOTICES];
};

/* Pages ------------------------------------------------------------------------------ */

static void braid_virtio_free_pages(struct pages *pages)
{
	u32 chunk, k;

	vunmap(pages->base);
	for (chunk = 0; chunk < pages->nr_chunks; chunk++)
		for (k = 0; k < 1u << pages->order[chunk]; k++)
			__free_page(pages->first[chunk] + k);
	memset(pages, 0, sizeof(*pages));
}

/* As much of @bytes as is available in @chunks_max chunks without memory pressure. */
static void braid_virtio_alloc_chunks(struct pages *pages, u64 bytes, u32 chunks_max)
{
	const gfp_t flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_NORETRY;
	int order = CHUNK_ORDER_MOST;

	while (order >= 0 && pages->bytes < bytes && pages->nr_chunks < chunks_max) {
		struct page *page = NULL;

		if (PAGE_SIZE << order <= bytes - pages->bytes)
			page = alloc_pages(flags, order);
		if (!page) {
			order--;
			continue;
		}
		/* Each has a reference count: a user of a mapping can hold one of them. */
		split_page(page, order);
		pages->first[pages->nr_chunks] = page;
		pages->order[pages->nr_chunks++] = order;
		pages->bytes += PAGE_SIZE << order;
	}
}

static int braid_virtio_map_chunks(struct pages *pages)
{
	u32 nr = pages->bytes >> PAGE_SHIFT, chunk, k, n = 0;
	struct page **all = kvmalloc_array(nr, sizeof(*all), GFP_KERNEL);

	if (!all)
		return -ENOMEM;
	for (chunk = 0; chunk < pages->nr_chunks; chunk++)
		for (k = 0; k < 1u << pages->order[chunk]; k++)
			all[n++] = pages->first[chunk] + k;
	pages->base = vmap(all, nr, VM_MAP, PAGE_KERNEL);
	kvfree(all);
	return pages->base ? 0 : -ENOMEM;
}

/* The size requested by the user or the device, within the limits of both. */
static u64 braid_virtio_wanted_bytes(const struct braid_virtio_config *config)
{
	u64 quarter = (u64)totalram_pages() << PAGE_SHIFT >> 2;
	u64 most = le64_to_cpu(config->region_bytes_max);
	u64 bytes = (u64)virtio_size_mb << 20 ?: le64_to_cpu(config->region_bytes) ?: DEFAULT_BYTES;

	bytes = min(bytes, quarter);
	if (most)
		bytes = min(bytes, most);
	return round_down(bytes, PAGE_SIZE);
}

static int braid_virtio_make_pages(struct trace_device *dev)
{
	u32 chunks_max = le32_to_cpu(dev->config.chunks_max);
	u64 bytes = braid_virtio_wanted_bytes(&dev->config);
	int err;

	braid_virtio_alloc_chunks(&dev->pages, bytes, min_t(u32, chunks_max, CHUNKS_MOST));
	err = dev->pages.bytes ? braid_virtio_map_chunks(&dev->pages) : -ENOMEM;
	if (err)
		braid_virtio_free_pages(&dev->pages);
	else if (dev->pages.bytes < bytes)
		pr_info("%s: shares only %llu KiB instead of %llu KiB: not enough free memory\n",
			dev_name(&dev->vdev->dev), dev->pages.bytes >> 10, bytes >> 10);
	return err;
}

/* The controlq ------------------------------------------------------------------------- */

static int braid_virtio_send(struct trace_device *dev, struct request *request)
{
	struct virtqueue *vq = dev->queues[BRAID_VIRTIO_CONTROLQ];
	struct scatterlist out, in, *both[] = { &out, &in };
	bool kick = false;
	int err;

	sg_init_one(&out, request->control, request->control_bytes);
	sg_init_one(&in, &request->status, sizeof(request->status));
	spin_lock_irq(&dev->control_lock);
	err = virtqueue_add_sgs(vq, both, 1, 1, request, GFP_ATOMIC);
	if (!err) {
		request->there = true;
		kick = virtqueue_kick_prepare(vq);
	}
	spin_unlock_irq(&dev->control_lock);
	if (kick)
		virtqueue_notify(vq);
	return err;
}

static void braid_virtio_control_done(struct virtqueue *vq)
{
	struct trace_device *dev = vq->vdev->priv;
	struct request *request;
	unsigned long flags;
	unsigned int len;

	spin_lock_irqsave(&dev->control_lock, flags);
	while ((request = virtqueue_get_buf(vq, &len)) != NULL) {
		request->there = false;
		if (request == &dev->announce && !dev->leaving)
			schedule_work(&dev->let_go);
	}
	spin_unlock_irqrestore(&dev->control_lock, flags);
	wake_up(&dev->given_back);
}

static void braid_virtio_prepare_announce(struct trace_device *dev)
{
	const struct pages *pages = &dev->pages;
	struct braid_virtio_control *control = dev->announce.control;
	struct braid_virtio_chunk *chunks = (void *)(control + 1);
	u32 k;

	control->command = cpu_to_le32(BRAID_VIRTIO_ANNOUNCE);
	control->nr_chunks = cpu_to_le32(pages->nr_chunks);
	for (k = 0; k < pages->nr_chunks; k++) {
		chunks[k].address = cpu_to_le64(page_to_phys(pages->first[k]));
		chunks[k].bytes = cpu_to_le64(PAGE_SIZE << pages->order[k]);
	}
	dev->announce.control_bytes = sizeof(*control) + k * sizeof(*chunks);
	/* For a device that returns the buffer without an answer. */
	dev->announce.status.result = cpu_to_le32(BRAID_VIRTIO_BAD);
}

/* Requests the pages back. Return: whether the guest owns them again. */
static bool braid_virtio_get_back(struct trace_device *dev)
{
	dev->revoke.control->command = cpu_to_le32(BRAID_VIRTIO_REVOKE);
	if (READ_ONCE(dev->announce.there) && !braid_virtio_send(dev, &dev->revoke))
		wait_event_timeout(dev->given_back, !READ_ONCE(dev->announce.there), GIVE_BACK_WAIT);
	return !READ_ONCE(dev->announce.there);
}

static const char *braid_virtio_reason(__le32 result)
{
	switch (le32_to_cpu(result)) {
	case BRAID_VIRTIO_OK:
		return "the host returned the memory";
	case BRAID_VIRTIO_BUSY:
		return "the host reports that a region is already announced";
	case BRAID_VIRTIO_REFUSED:
		return "the host cannot map the memory, or it is too large: load this driver with a smaller virtio_size_mb=";
	}
	return "the host does not understand this driver; use the same version on both sides";
}

/* The device has released the region: stop tracing into these pages. */
static void braid_virtio_stop_sharing(struct work_struct *work)
{
	struct trace_device *dev = container_of(work, struct trace_device, let_go);

	mutex_lock(&dev->sharing);
	if (dev->attached)
		client->detach();
	dev->attached = false;
	braid_virtio_free_pages(&dev->pages);
	pr_warn("%s: memory is no longer shared with the host: %s\n", dev_name(&dev->vdev->dev),
		braid_virtio_reason(READ_ONCE(dev->announce.status.result)));
	mutex_unlock(&dev->sharing);
}

/* Doorbells -------------------------------------------------------------------------------- */

static void braid_virtio_ring_doorbell(void *transport, u32 value)
{
	struct trace_device *dev = transport;

	virtqueue_notify(dev->queues[BRAID_VIRTIO_NOTIFYQ]);
}

/* Without a notification, which would wake the host: it checks for buffers when it needs one. */
static void braid_virtio_offer_notice(struct virtqueue *vq, struct braid_virtio_notice *notice)
{
	struct scatterlist in;

	sg_init_one(&in, notice, sizeof(*notice));
	if (!virtqueue_add_inbuf(vq, &in, 1, notice, GFP_ATOMIC))
		virtqueue_kick_prepare(vq);
}

/* Takes all buffers before it offers one again, so that no device can keep this loop running. */
static void braid_virtio_notice_came(struct virtqueue *vq)
{
	struct braid_virtio_notice *notice, *taken[NR_NOTICES];
	unsigned int len, nr = 0, k;
	bool wake = false;

	while (nr < NR_NOTICES && (notice = virtqueue_get_buf(vq, &len)) != NULL) {
		wake |= len >= sizeof(*notice) &&
			READ_ONCE(notice->event) == cpu_to_le32(BRAID_VIRTIO_WAKE);
		taken[nr++] = notice;
	}
	for (k = 0; k < nr; k++)
		braid_virtio_offer_notice(vq, taken[k]);
	if (wake)
		client->rang();
}

/* Life of a device ----------------------------------------------------------------------------- */

static int braid_virtio_read_config(struct trace_device *dev)
{
	struct braid_virtio_config *config = &dev->config;
	u64 most;

	virtio_cread_bytes(dev->vdev, 0, config, sizeof(*config));
	most = le64_to_cpu(config->region_bytes_max);
	if (config->chunks_max && (!most || le64_to_cpu(config->region_bytes) <= most))
		return 0;
	pr_warn("%s: not used: invalid configuration of a trace device\n",
		dev_name(&dev->vdev->dev));
	return -EINVAL;
}

static int braid_virtio_find_queues(struct trace_device *dev)
{
	bool notify = virtio_has_feature(dev->vdev, BRAID_VIRTIO_F_NOTIFY);
	unsigned int nr = notify ? BRAID_VIRTIO_NR_QUEUES : BRAID_VIRTIO_NR_QUEUES - 1;
#if BRAID_HAVE_VIRTQUEUE_INFO
	struct virtqueue_info info[] = {
		{ "control", braid_virtio_control_done },
		{ "notify", braid_virtio_notice_came },
	};

	return virtio_find_vqs(dev->vdev, nr, dev->queues, info, NULL);
#else
	vq_callback_t *callbacks[] = { braid_virtio_control_done, braid_virtio_notice_came };
	static const char * const names[] = { "control", "notify" };

	return virtio_find_vqs(dev->vdev, nr, dev->queues, callbacks, names, NULL);
#endif
}

/* Announces the pages, and lets the client lay out a region in them. */
static int braid_virtio_share(struct trace_device *dev)
{
	struct braid_range range = {
		.base = dev->pages.base,
		.bytes = dev->pages.bytes,
		.name = dev_name(&dev->vdev->dev),
		.invited = true,	/* pages of the guest's own */
		.has_pages = true,
		.ring = dev->queues[BRAID_VIRTIO_NOTIFYQ] ? braid_virtio_ring_doorbell : NULL,
		.transport = dev,
	};
	int err;

	braid_virtio_prepare_announce(dev);
	mutex_lock(&dev->sharing);
	err = braid_virtio_send(dev, &dev->announce);
	if (!err)
		err = client->attach(&range);
	dev->attached = !err;
	mutex_unlock(&dev->sharing);
	return err;
}

/*
 * Whether a device that has been reset can be trusted to be out of our memory. With PCI the front
 * end reports the reset only after its backend has released the memory or is gone. User-mode Linux
 * does not notify its backend.
 */
static bool braid_virtio_reset_ends_access(const struct trace_device *dev)
{
	return dev_is_pci(dev->vdev->dev.parent);
}

/* No buffer given to the device outlives its queues. */
static void braid_virtio_end_queues(struct trace_device *dev)
{
	virtio_reset_device(dev->vdev);
	dev->vdev->config->del_vqs(dev->vdev);
	memset(dev->queues, 0, sizeof(dev->queues));
	dev->announce.there = dev->revoke.there = false;
}

/* Resets the device; the pages are freed. */
static void braid_virtio_unshare(struct trace_device *dev)
{
	bool ours;

	if (!dev->queues[BRAID_VIRTIO_CONTROLQ])
		return;		/* asleep, or its start has failed */
	spin_lock_irq(&dev->control_lock);
	dev->leaving = true;		/* from here on, returned buffers were requested */
	spin_unlock_irq(&dev->control_lock);
	cancel_work_sync(&dev->let_go);
	if (dev->attached)
		client->detach();
	dev->attached = false;
	ours = braid_virtio_get_back(dev);
	braid_virtio_end_queues(dev);
	if (ours || !dev->pages.nr_chunks || braid_virtio_reset_ends_access(dev)) {
		braid_virtio_free_pages(&dev->pages);
		return;
	}
	pr_warn("%s: the host has not returned the memory: %llu KiB are lost until the next boot\n",
		dev_name(&dev->vdev->dev), dev->pages.bytes >> 10);
	vunmap(dev->pages.base);
	memset(&dev->pages, 0, sizeof(dev->pages));
}

/* From a device that was reset to a region that is shared. */
static int braid_virtio_start(struct trace_device *dev)
{
	int err = braid_virtio_find_queues(dev), k;

	if (err) {
		memset(dev->queues, 0, sizeof(dev->queues));
		return err;
	}
	dev->leaving = false;
	if (dev->queues[BRAID_VIRTIO_NOTIFYQ])
		for (k = 0; k < NR_NOTICES; k++)
			braid_virtio_offer_notice(dev->queues[BRAID_VIRTIO_NOTIFYQ],
						  &dev->notices[k]);
	virtio_device_ready(dev->vdev);
	err = braid_virtio_make_pages(dev);
	if (!err)
		err = braid_virtio_share(dev);
	if (err)
		braid_virtio_unshare(dev);
	return err;
}

static struct trace_device *braid_virtio_make_device(struct virtio_device *vdev)
{
	struct trace_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	dev->vdev = vdev;
	dev->announce.control = kzalloc(sizeof(struct braid_virtio_control) +
					CHUNKS_MOST * sizeof(struct braid_virtio_chunk), GFP_KERNEL);
	dev->revoke.control = kzalloc(sizeof(struct braid_virtio_control), GFP_KERNEL);
	dev->revoke.control_bytes = sizeof(struct braid_virtio_control);
	spin_lock_init(&dev->control_lock);
	init_waitqueue_head(&dev->given_back);
	mutex_init(&dev->sharing);
	INIT_WORK(&dev->let_go, braid_virtio_stop_sharing);
	return dev;
}

static void braid_virtio_free_device(struct trace_device *dev)
{
	kfree(dev->announce.control);
	kfree(dev->revoke.control);
	kfree(dev);
}

static int braid_virtio_probe(struct virtio_device *vdev)
{
	struct trace_device *dev;
	int err;

	if (is_kdump_kernel())
		return -ENODEV;		/* its memory is scarce, and what crashed has another region */
	dev = braid_virtio_make_device(vdev);
	if (!dev)
		return -ENOMEM;
	vdev->priv = dev;
	err = dev->announce.control && dev->revoke.control ? braid_virtio_read_config(dev) :
							     -ENOMEM;
	if (!err)
		err = braid_virtio_start(dev);
	if (err)
		braid_virtio_free_device(dev);
	return err;
}

static void braid_virtio_remove(struct virtio_device *vdev)
{
	struct trace_device *dev = vdev->priv;

	braid_virtio_unshare(dev);
	braid_virtio_free_device(dev);
}

#ifdef CONFIG_PM
/* The guest may wake on another host: the shared memory is released, with its state. */
static int braid_virtio_freeze(struct virtio_device *vdev)
{
	braid_virtio_unshare(vdev->priv);
	return 0;
}

static int braid_virtio_restore(struct virtio_device *vdev)
{
	return braid_virtio_start(vdev->priv);
}
#endif

/* Why the device can't be used, or NULL. Chunks are ordinary pages, given by physical address. */
static const char *braid_virtio_objection(struct virtio_device *vdev)
{
	if (!virtio_has_feature(vdev, VIRTIO_F_VERSION_1))
		return "legacy device without VIRTIO_F_VERSION_1";
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "this guest's memory is encrypted, so the host could not read the trace; use ivshmem";
	if (virtio_has_feature(vdev, VIRTIO_F_ACCESS_PLATFORM))
		return "the device requires translated addresses (VIRTIO_F_ACCESS_PLATFORM), which this driver does not support; turn off its iommu_platform";
	return NULL;
}

/* Before features are accepted, and before the kernel's own check of encrypted guests. */
static int braid_virtio_validate(struct virtio_device *vdev)
{
	const char *objection = braid_virtio_objection(vdev);

	if (!objection)
		return 0;
	pr_warn("%s: not used: %s\n", dev_name(&vdev->dev), objection);
	return -ENODEV;
}

static struct virtio_device_id trace_ids[] = {
	{ BRAID_VIRTIO_ID, VIRTIO_DEV_ANY_ID },
	{ }
};
MODULE_DEVICE_TABLE(virtio, trace_ids);

static const unsigned int trace_features[] = { BRAID_VIRTIO_F_NOTIFY };

static struct virtio_driver trace_driver = {
	.driver.name = "tracebraid",
	.driver.owner = THIS_MODULE,
	.id_table = trace_ids,
	.feature_table = trace_features,
	.feature_table_size = ARRAY_SIZE(trace_features),
	.validate = braid_virtio_validate,
	.probe = braid_virtio_probe,
	.remove = braid_virtio_remove,
#ifdef CONFIG_PM
	.freeze = braid_virtio_freeze,
	.restore = braid_virtio_restore,
#endif
};

static int braid_virtio_init(const struct braid_transport_client *who)
{
	client = who;
	trace_ids[0].device = virtio_id;
	return register_virtio_driver(&trace_driver);
}

static void braid_virtio_exit(void)
{
	unregister_virtio_driver(&trace_driver);
}

const struct braid_transport_ops braid_virtio_ops = {
	.name = "virtio",
	.init = braid_virtio_init,
	.exit = braid_virtio_exit,
};
