// SPDX-License-Identifier: GPL-2.0
/* ivshmem: the BAR of a PCI device that stock QEMU and libvirt provide. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/crash_dump.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "guest_driver/transport/transport.h"

#define IVSHMEM_VENDOR	0x1af4
#define IVSHMEM_DEVICE	0x1110
#define IVSHMEM_BAR	2

/* Additions of ivshmem-doorbell: registers, and MSI-X. */
#define IVSHMEM_REGS_BAR	0
#define IVSHMEM_REGS_BYTES	16
#define IVSHMEM_DOORBELL	12	/* takes a peer's number << 16 | its vector */
#define IVSHMEM_WAKE_VECTOR	0	/* by which the host rings */

static char *device = "";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "PCI address of the ivshmem device to use, even without the host's mark (default: the first device that the host has marked)");

/* Cloud kernels lack vmap_pfn(). */
#if defined(CONFIG_X86) && defined(CONFIG_ZONE_DEVICE) && !defined(CONFIG_VMAP_PFN)
#define BRAID_IVSHMEM_ZONE_DEVICE
#endif

static const struct braid_transport_client *client;

struct ivshmem {
	struct braid_range range;
	bool vmapped;		/* else memremapped */
	bool attached;		/* the client has the range */
	void __iomem *regs;	/* NULL: no doorbell in either direction */
#ifdef BRAID_IVSHMEM_ZONE_DEVICE
	struct dev_pagemap pagemap;	/* if ->vmapped; last, as it ends with a flexible array */
#endif
};

/* On x86 memremap() follows the MTRRs; then each event waits for the bus. */
static bool braid_ivshmem_uncached(const void *base)
{
#ifdef CONFIG_X86
	unsigned int level;
	pte_t *pte = lookup_address((unsigned long)base, &level);

	/* Bit 7 is PAT in a small page, and the size in a huge one. */
	return pte && pte_flags(*pte) & (_PAGE_PWT | _PAGE_PCD);
#else
	return false;
#endif
}

#ifdef CONFIG_VMAP_PFN
/* Maps pages by their numbers; NULL when the kernel uses some of them as memory. */
static void *braid_ivshmem_map_pages(struct ivshmem *shm, phys_addr_t start, u64 bytes)
{
	u64 nr = bytes >> PAGE_SHIFT, k;
	unsigned long *pfns = kvmalloc_array(nr, sizeof(*pfns), GFP_KERNEL);
	void *base = NULL;

	if (!pfns)
		return NULL;
	for (k = 0; k < nr; k++) {
		pfns[k] = PHYS_PFN(start) + k;
		if (pfn_valid(pfns[k]))
			break;
	}
	if (k == nr)
		base = vmap_pfn(pfns, nr, pgprot_decrypted(PAGE_KERNEL));
	kvfree(pfns);
	return base;
}

static void braid_ivshmem_put_pages(struct ivshmem *shm)
{
}
#elif defined(BRAID_IVSHMEM_ZONE_DEVICE)
/* Whether memremap() is right; struct pages would raise the kernel's highest page for good. */
static bool braid_ivshmem_remaps_cached(phys_addr_t start, u64 bytes)
{
	void *base = memremap(start, bytes, MEMREMAP_WB);
	bool cached = base && !braid_ivshmem_uncached(base);

	if (base)
		memunmap(base);
	return cached;
}

/*
 * Gives the BAR's pages a struct page each, and maps them by these. memremap_pages() may map them
 * uncached, but nothing uses that mapping. NULL: memremap() is as good; or the BAR is not aligned to
 * what can be added, or is larger than this guest's RAM.
 */
static void *braid_ivshmem_map_pages(struct ivshmem *shm, phys_addr_t start, u64 bytes)
{
	u64 nr = bytes >> PAGE_SHIFT, k;
	struct page **pages;
	void *base = NULL;

	if (!IS_ALIGNED(start | bytes, PAGES_PER_SUBSECTION * PAGE_SIZE) ||
	    braid_ivshmem_remaps_cached(start, bytes))
		return NULL;
	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	shm->pagemap.type = MEMORY_DEVICE_GENERIC;
	shm->pagemap.range = (struct range){ .start = start, .end = start + bytes - 1 };
	shm->pagemap.nr_range = 1;
	if (!IS_ERR(memremap_pages(&shm->pagemap, NUMA_NO_NODE))) {
		for (k = 0; k < nr; k++)
			pages[k] = pfn_to_page(PHYS_PFN(start) + k);
		base = vmap(pages, nr, VM_MAP, pgprot_decrypted(PAGE_KERNEL));
		if (!base)
			memunmap_pages(&shm->pagemap);
	}
	kvfree(pages);
	return base;
}

static void braid_ivshmem_put_pages(struct ivshmem *shm)
{
	memunmap_pages(&shm->pagemap);
}
#else
static void *braid_ivshmem_map_pages(struct ivshmem *shm, phys_addr_t start, u64 bytes)
{
	return NULL;
}

static void braid_ivshmem_put_pages(struct ivshmem *shm)
{
}
#endif

/*
 * Not memremap(): on x86 it consults the MTRRs, which mark the PCI hole below 4 GiB, where firmware
 * puts this BAR, as uncached, and maps it so. But this hole is ordinary host memory, and both sides
 * must map it write-back to agree. vmap_pfn() needs no struct pages either. In a guest with
 * encrypted memory these pages are shared: mapped without the encryption bit, as ioremap() maps a
 * BAR. arm64's kernel with pages of 16 KiB has no vmap_pfn(), and no MTRRs: memremap() is right.
 */
static int braid_ivshmem_map_bar(struct pci_dev *pdev, struct ivshmem *shm)
{
	phys_addr_t start = pci_resource_start(pdev, IVSHMEM_BAR);
	struct braid_range *range = &shm->range;

	range->bytes = pci_resource_len(pdev, IVSHMEM_BAR);
	range->name = pci_name(pdev);
	range->invited = *device;
	range->base = braid_ivshmem_map_pages(shm, start, range->bytes);
	shm->vmapped = range->base;
	if (!range->base)
		range->base = memremap(start, range->bytes, MEMREMAP_WB);
	if (!range->base)
		return -ENOMEM;
	if (braid_ivshmem_uncached(range->base))
		pr_warn("%s: this kernel maps the shared memory uncached, which slows recording: use a region of at least 2 MiB and smaller than the guest's RAM, or the virtio device\n",
			range->name);
	return 0;
}

static void braid_ivshmem_unmap_bar(struct ivshmem *shm)
{
	if (!shm->vmapped) {
		memunmap(shm->range.base);
		return;
	}
	vunmap(shm->range.base);
	braid_ivshmem_put_pages(shm);
}

/* No peer of that number, or no such vector: then the device ignores it. */
static void braid_ivshmem_ring_doorbell(void *transport, u32 value)
{
	struct ivshmem *shm = transport;

	iowrite32(value, shm->regs + IVSHMEM_DOORBELL);
}

static irqreturn_t braid_ivshmem_interrupt(int irq, void *arg)
{
	client->rang();
	return IRQ_HANDLED;
}

/* Without a doorbell both sides poll, so failures here are only reported. */
static void braid_ivshmem_get_doorbell(struct pci_dev *pdev, struct ivshmem *shm)
{
	int err = pci_msix_vec_count(pdev);

	if (err <= 0)
		return;		/* ivshmem-plain */
	err = pci_request_region(pdev, IVSHMEM_REGS_BAR, "tracebraid");
	if (err)
		goto err_say;
	err = -ENOMEM;
	shm->regs = pci_iomap(pdev, IVSHMEM_REGS_BAR, IVSHMEM_REGS_BYTES);
	if (!shm->regs)
		goto err_release;
	pci_set_master(pdev);
	err = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSIX);
	if (err < 0)
		goto err_unmap;
	err = request_irq(pci_irq_vector(pdev, IVSHMEM_WAKE_VECTOR), braid_ivshmem_interrupt, 0,
			  "tracebraid", shm);
	if (err)
		goto err_vectors;
	shm->range.ring = braid_ivshmem_ring_doorbell;
	shm->range.transport = shm;
	return;

err_vectors:
	pci_free_irq_vectors(pdev);
err_unmap:
	pci_clear_master(pdev);
	pci_iounmap(pdev, shm->regs);
	shm->regs = NULL;
err_release:
	pci_release_region(pdev, IVSHMEM_REGS_BAR);
err_say:
	pr_info("%s: doorbell not available, polling instead (%d)\n", pci_name(pdev), err);
}

static void braid_ivshmem_put_doorbell(struct pci_dev *pdev, struct ivshmem *shm)
{
	if (!shm->regs)
		return;
	free_irq(pci_irq_vector(pdev, IVSHMEM_WAKE_VECTOR), shm);
	pci_free_irq_vectors(pdev);
	pci_clear_master(pdev);
	pci_iounmap(pdev, shm->regs);
	pci_release_region(pdev, IVSHMEM_REGS_BAR);
	shm->regs = NULL;
	shm->range.ring = NULL;
}

static int braid_ivshmem_share(struct pci_dev *pdev, struct ivshmem *shm)
{
	int err;

	braid_ivshmem_get_doorbell(pdev, shm);
	err = client->attach(&shm->range);
	shm->attached = !err;
	if (err)
		braid_ivshmem_put_doorbell(pdev, shm);
	return err;
}

static void braid_ivshmem_unshare(struct pci_dev *pdev, struct ivshmem *shm)
{
	if (!shm->attached)
		return;
	client->detach();
	shm->attached = false;
	braid_ivshmem_put_doorbell(pdev, shm);
}

static int braid_ivshmem_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct ivshmem *shm;
	int err;

	if (*device && strcmp(device, pci_name(pdev)))
		return -ENODEV;
	if (is_kdump_kernel())
		return -ENODEV;		/* the trace of what crashed is in there */
	if (!(pci_resource_flags(pdev, IVSHMEM_BAR) & IORESOURCE_MEM) ||
	    pci_resource_len(pdev, IVSHMEM_BAR) < PAGE_SIZE)
		return -ENODEV;
	shm = kzalloc(sizeof(*shm), GFP_KERNEL);
	if (!shm)
		return -ENOMEM;
	err = pci_enable_device_mem(pdev);
	if (err)
		goto err_free;
	err = pci_request_region(pdev, IVSHMEM_BAR, "tracebraid");
	if (err)
		goto err_disable;
	err = braid_ivshmem_map_bar(pdev, shm);
	if (err)
		goto err_release;
	pci_set_drvdata(pdev, shm);
	err = braid_ivshmem_share(pdev, shm);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	braid_ivshmem_unmap_bar(shm);
err_release:
	pci_release_region(pdev, IVSHMEM_BAR);
err_disable:
	pci_disable_device(pdev);
err_free:
	kfree(shm);
	return err;
}

static void braid_ivshmem_remove(struct pci_dev *pdev)
{
	struct ivshmem *shm = pci_get_drvdata(pdev);

	braid_ivshmem_unshare(pdev, shm);
	braid_ivshmem_unmap_bar(shm);
	pci_release_region(pdev, IVSHMEM_BAR);
	pci_disable_device(pdev);
	kfree(shm);
}

/* The guest may wake on another host, with other contents in the memory. */
static int braid_ivshmem_suspend(struct device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev);

	braid_ivshmem_unshare(pdev, pci_get_drvdata(pdev));
	return 0;
}

/* Unusable memory must not block resume: the client has reported the reason. */
static int braid_ivshmem_resume(struct device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev);

	braid_ivshmem_share(pdev, pci_get_drvdata(pdev));
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(ivshmem_pm, braid_ivshmem_suspend, braid_ivshmem_resume);

static const struct pci_device_id ivshmem_ids[] = {
	{ PCI_DEVICE(IVSHMEM_VENDOR, IVSHMEM_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ivshmem_ids);

static struct pci_driver ivshmem_driver = {
	.name = "tracebraid",
	.id_table = ivshmem_ids,
	.probe = braid_ivshmem_probe,
	.remove = braid_ivshmem_remove,
	.driver.pm = pm_sleep_ptr(&ivshmem_pm),
};

static int braid_ivshmem_init(const struct braid_transport_client *who)
{
	client = who;
	return pci_register_driver(&ivshmem_driver);
}

static void braid_ivshmem_exit(void)
{
	pci_unregister_driver(&ivshmem_driver);
}

const struct braid_transport_ops braid_ivshmem_ops = {
	.name = "ivshmem",
	.init = braid_ivshmem_init,
	.exit = braid_ivshmem_exit,
};
