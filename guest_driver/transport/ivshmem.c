// SPDX-License-Identifier: GPL-2.0
/* ivshmem: the BAR of a PCI device that stock QEMU and libvirt provide. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/crash_dump.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "guest_driver/transport/transport.h"

#define IVSHMEM_VENDOR	0x1af4
#define IVSHMEM_DEVICE	0x1110
#define IVSHMEM_BAR	2

/* What ivshmem-doorbell has besides: registers, and MSI-X. */
#define IVSHMEM_REGS_BAR	0
#define IVSHMEM_REGS_BYTES	16
#define IVSHMEM_DOORBELL	12	/* takes a peer's number << 16 | its vector */
#define IVSHMEM_LOOK_VECTOR	0	/* by which the host rings */

static char *device = "";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "PCI address of the ivshmem device to use, which then needs no mark of the host's; default: the first that the host has marked");

static const struct braid_transport_client *client;

struct ivshmem {
	void *base;
	bool vmapped;		/* else memremapped */
	void __iomem *regs;	/* NULL: no doorbell, neither way */
};

/* The pages by their numbers, or NULL when some are known to the kernel as memory. */
static void *map_pages(phys_addr_t start, u64 bytes)
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
		base = vmap_pfn(pfns, nr, PAGE_KERNEL);
	kvfree(pfns);
	return base;
}

/*
 * memremap() would ask the MTRRs, which call a PCI hole uncached; but this hole is
 * the host's ordinary memory, and both sides must map it write-back to agree.
 */
static int map_bar(struct pci_dev *pdev, struct ivshmem *shm, struct braid_range *range)
{
	phys_addr_t start = pci_resource_start(pdev, IVSHMEM_BAR);

	range->bytes = pci_resource_len(pdev, IVSHMEM_BAR);
	range->name = pci_name(pdev);
	range->invited = *device;
	shm->base = map_pages(start, range->bytes);
	shm->vmapped = shm->base;
	if (!shm->base)
		shm->base = memremap(start, range->bytes, MEMREMAP_WB);
	range->base = shm->base;
	return shm->base ? 0 : -ENOMEM;
}

static void unmap_bar(struct ivshmem *shm)
{
	if (shm->vmapped)
		vunmap(shm->base);
	else
		memunmap(shm->base);
}

/* No peer of that number, or no such vector: then the device ignores it. */
static void ring(void *transport, u32 value)
{
	struct ivshmem *shm = transport;

	iowrite32(value, shm->regs + IVSHMEM_DOORBELL);
}

static irqreturn_t rung(int irq, void *arg)
{
	client->look();
	return IRQ_HANDLED;
}

/* Without a doorbell both sides look now and then: what fails here is told and no more. */
static void get_doorbell(struct pci_dev *pdev, struct ivshmem *shm, struct braid_range *range)
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
	err = request_irq(pci_irq_vector(pdev, IVSHMEM_LOOK_VECTOR), rung, 0, "tracebraid", shm);
	if (err)
		goto err_vectors;
	range->ring = ring;
	range->transport = shm;
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
	pr_info("%s: its doorbell can't be used (%d)\n", pci_name(pdev), err);
}

static void put_doorbell(struct pci_dev *pdev, struct ivshmem *shm)
{
	if (!shm->regs)
		return;
	free_irq(pci_irq_vector(pdev, IVSHMEM_LOOK_VECTOR), shm);
	pci_free_irq_vectors(pdev);
	pci_clear_master(pdev);
	pci_iounmap(pdev, shm->regs);
	pci_release_region(pdev, IVSHMEM_REGS_BAR);
}

static int ivshmem_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct braid_range range = { };
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
	err = map_bar(pdev, shm, &range);
	if (err)
		goto err_release;
	pci_set_drvdata(pdev, shm);
	get_doorbell(pdev, shm, &range);
	err = client->attach(&range);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	put_doorbell(pdev, shm);
	unmap_bar(shm);
err_release:
	pci_release_region(pdev, IVSHMEM_BAR);
err_disable:
	pci_disable_device(pdev);
err_free:
	kfree(shm);
	return err;
}

static void ivshmem_remove(struct pci_dev *pdev)
{
	struct ivshmem *shm = pci_get_drvdata(pdev);

	client->detach();
	put_doorbell(pdev, shm);
	unmap_bar(shm);
	pci_release_region(pdev, IVSHMEM_BAR);
	pci_disable_device(pdev);
	kfree(shm);
}

static const struct pci_device_id ivshmem_ids[] = {
	{ PCI_DEVICE(IVSHMEM_VENDOR, IVSHMEM_DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ivshmem_ids);

static struct pci_driver ivshmem_driver = {
	.name = "tracebraid",
	.id_table = ivshmem_ids,
	.probe = ivshmem_probe,
	.remove = ivshmem_remove,
};

static int ivshmem_init(const struct braid_transport_client *who)
{
	client = who;
	return pci_register_driver(&ivshmem_driver);
}

static void ivshmem_exit(void)
{
	pci_unregister_driver(&ivshmem_driver);
}

const struct braid_transport_ops braid_ivshmem_ops = {
	.name = "ivshmem",
	.init = ivshmem_init,
	.exit = ivshmem_exit,
};
