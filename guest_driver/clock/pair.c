// SPDX-License-Identifier: GPL-2.0
/* Reads the counter and wall time as one: the host's by KVM's clock pairing, or the guest's own. */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/timekeeping.h>

#include "guest_driver/clock/pair.h"
#include "guest_driver/core/counter.h"
#include "shared/clock.h"

#define TRIES		3	/* the vCPU may lose its processor in the midst of one */

/* The clocks between two readings of the counter. Return: how far these are apart. */
static u64 braid_pair_read_once(struct braid_pair *pair)
{
	unsigned long flags;
	u64 before, after;

	local_irq_save(flags);
	before = braid_counter_ordered();
	pair->realtime_ns = ktime_get_real_fast_ns();
	pair->boottime_ns = ktime_get_boot_fast_ns();
	after = braid_counter_ordered();
	local_irq_restore(flags);
	pair->counter = before + (after - before) / 2;
	pair->source = BRAID_PAIR_GUEST_REALTIME;
	return after - before;
}

static void braid_pair_read_own(struct braid_pair *pair)
{
	u64 best = ~0ULL, apart;
	struct braid_pair one;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		apart = braid_pair_read_once(&one);
		if (apart >= best)
			continue;
		best = apart;
		*pair = one;
	}
}

bool braid_pair_use_answer(struct braid_pair *pair, const struct braid_pair_answer *reply,
			u64 before, u64 after, u64 mult)
{
	const struct braid_clock_map boottime = {
		.ref_counter = pair->counter, .ref_ns = pair->boottime_ns, .mult = mult,
	};

	if (reply->sec <= 0 || reply->sec >= S64_MAX / NSEC_PER_SEC ||
	    (u64)reply->nsec >= NSEC_PER_SEC)
		return false;
	/* Not the counter that this guest reads: a hypervisor in between scales it. */
	if (reply->counter - before > after - before)
		return false;
	pair->boottime_ns = braid_clock_to_ns(&boottime, reply->counter);
	pair->realtime_ns = reply->sec * NSEC_PER_SEC + reply->nsec;
	pair->counter = reply->counter;
	pair->source = BRAID_PAIR_HOST_REALTIME;
	return true;
}

/* What follows knows the hypercall: whether there is one, and its answer. */
#if defined(CONFIG_X86) && defined(CONFIG_KVM_GUEST)
#include <linux/cc_platform.h>
#include <linux/io.h>
#include <linux/kvm_para.h>
#include <linux/slab.h>

static struct kvm_clock_pairing *answer;	/* from kmalloc: its physical address is needed */

static bool braid_pair_has_host(void)
{
	return answer;
}

static bool braid_pair_call_host(struct braid_pair_answer *reply)
{
	long ret = kvm_hypercall2(KVM_HC_CLOCK_PAIRING, virt_to_phys(answer),
				  KVM_CLOCK_PAIRING_WALLCLOCK);

	reply->sec = READ_ONCE(answer->sec);
	reply->nsec = READ_ONCE(answer->nsec);
	reply->counter = READ_ONCE(answer->tsc);
	return !ret;
}

static void braid_pair_find_host(void)
{
	/* In encrypted memory the host's answer is unreadable. */
	if (kvm_para_available() && !cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		answer = kzalloc(sizeof(*answer), GFP_KERNEL);
}

static void braid_pair_forget_host(void)
{
	kfree(answer);
	answer = NULL;
}
#elif defined(CONFIG_ARM64) && defined(CONFIG_HAVE_ARM_SMCCC_DISCOVERY)
#include <asm/hypervisor.h>
#include <linux/arm-smccc.h>

/* KVM's PTP service: Documentation/virt/kvm/arm/ptp_kvm.rst. The answer is in registers. */
static bool has_service;

static bool braid_pair_has_host(void)
{
	return has_service;
}

static bool braid_pair_call_host(struct braid_pair_answer *reply)
{
	struct arm_smccc_res res;
	u64 ns;

	arm_smccc_1_1_invoke(ARM_SMCCC_VENDOR_HYP_KVM_PTP_FUNC_ID, KVM_PTP_VIRT_COUNTER, &res);
	if ((int)res.a0 < 0)
		return false;
	ns = (u64)(u32)res.a0 << 32 | (u32)res.a1;
	reply->sec = ns / NSEC_PER_SEC;
	reply->nsec = ns % NSEC_PER_SEC;
	reply->counter = (u64)(u32)res.a2 << 32 | (u32)res.a3;
	return true;
}

static void braid_pair_find_host(void)
{
	has_service = kvm_arm_hyp_service_available(ARM_SMCCC_KVM_FUNC_PTP);
}

static void braid_pair_forget_host(void)
{
}
#else
static bool braid_pair_has_host(void)
{
	return false;
}

static bool braid_pair_call_host(struct braid_pair_answer *reply)
{
	return false;
}

static void braid_pair_find_host(void)
{
}

static void braid_pair_forget_host(void)
{
}
#endif

#define AGAIN_NS	(60 * NSEC_PER_SEC)	/* after a migration the host is another one */

static u64 again_ns;

void braid_pair_start(void)
{
	braid_pair_find_host();
	again_ns = 0;
}

void braid_pair_stop(void)
{
	braid_pair_forget_host();
}

/* Uses the host's wall time for the pair, if the host answers and the answer is plausible. */
static void braid_pair_ask_host(struct braid_pair *pair, u64 mult)
{
	u64 now = ktime_get_mono_fast_ns(), before, after;
	struct braid_pair_answer reply;
	bool answered;

	if (!braid_pair_has_host() || now < again_ns)
		return;
	before = braid_counter_ordered();
	answered = braid_pair_call_host(&reply);
	after = braid_counter_ordered();
	if (!answered || !braid_pair_use_answer(pair, &reply, before, after, mult))
		again_ns = now + AGAIN_NS;
}

void braid_pair_take(struct braid_pair *pair, u64 mult)
{
	braid_pair_read_own(pair);
	braid_pair_ask_host(pair, mult);
}
