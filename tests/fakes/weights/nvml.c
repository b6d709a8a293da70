// SPDX-License-Identifier: Apache-2.0
/*
 * A libnvidia-ml.so.1 without a GPU. The environment variable FAKE_NVML names what it plays: ramp, kv, leak, lost,
 * denied, mig, hung, xid, second (an Xid of the second of two), throttled, narrow, nodriver, race. Built with -DOLD it
 * has none of the newer functions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)
enum { OK = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, TOO_SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10, LOST = 15 };

static double began;
static int told;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int plays(const char *name)
{
	const char *scene = getenv("FAKE_NVML");

	return scene && !strcmp(scene, name);
}

static double passed(void)
{
	return now() - began;
}

static unsigned long long used(void)
{
	double t = passed();
	unsigned long long bytes = 512 * MIB;

	if (plays("leak"))
		return bytes + (unsigned long long)(t * 100) * MIB;
	if (t > 0.3)
		bytes += (unsigned long long)((t < 1.0 ? t - 0.3 : 0.7) / 0.7 * 8 * GIB);
	if (plays("kv") && t > 1.4)
		bytes += 7 * GIB;
	return bytes;
}

int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	began = now();
	return plays("nodriver") ? NO_DRIVER : OK;
}

int nvmlShutdown(void)
{
	return OK;
}

const char *nvmlErrorString(int code)
{
	switch (code) {
	case LOST:
		return "GPU is lost";
	case NO_PERMISSION:
		return "Insufficient Permissions";
	case NO_DRIVER:
		return "Driver Not Loaded";
	case NOT_SUPPORTED:
		return "Not Supported";
	case TIMEOUT:
		return "Timeout";
	}
	return "Error";
}

int nvmlSystemGetDriverVersion(char *to, unsigned room)
{
	strncpy(to, "580.95", room);
	return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = plays("second") ? 2 : 1;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = (void *)(uintptr_t)(index + 1);
	return OK;
}

int nvmlDeviceGetName(void *device, char *to, unsigned room)
{
	(void)device;
	strncpy(to, "Fake H200", room);
	return OK;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
	(void)device;
	*current = *pending = plays("mig");
	return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
	(void)device;
	if (plays("lost") && passed() > 0.8)
		return LOST;
	if (plays("hung") && passed() > 0.5)
		for (;;)
			pause();
	memory[0] = 16 * GIB; /* total, free, used */
	memory[2] = used() + 300 * MIB; /* this one counts what is reserved */
	memory[1] = memory[0] - memory[2];
	return OK;
}

#ifndef OLD
struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
	unsigned long long older[3];
	int code = nvmlDeviceGetMemoryInfo(device, older);

	if (code)
		return code;
	memory->total = older[0];
	memory->reserved = 300 * MIB;
	memory->used = used();
	memory->free = older[1];
	return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
	(void)device;
	*reasons = plays("throttled") ? 0x40 : 1;
	return OK;
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	(void)device;
	*reasons = plays("throttled") ? 0x40 : 1;
	return OK;
}

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned instance, compute;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *to)
{
	(void)device;
	if (plays("denied"))
		return NO_PERMISSION;
	if (!to || *count < 1 || (plays("race") && !told++)) {
		*count = plays("second") ? 2 : 1;
		return TOO_SMALL;
	}
	*count = plays("second") ? 2 : 1;
	to->pid = 4711;
	to->used = used();
	to->instance = to->compute = plays("mig") ? 3 : ~0U;
	return OK;
}

struct value {
	uint32_t field, scope;
	int64_t at, took;
	int type, code;
	unsigned long long number;
};

int nvmlDeviceGetFieldValues(void *device, int count, struct value *values)
{
	(void)device;
	for (int i = 0; i < count; i++) {
		values[i].code = OK;
		values[i].type = 3;
		values[i].number = values[i].field == 198 ? used() : values[i].field == 94 ? 0 : 1000;
	}
	return OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *number)
{
	(void)device;
	*number = 5;
	return OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *number)
{
	(void)device;
	*number = 16;
	return OK;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *number)
{
	(void)device;
	*number = 5;
	return OK;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *number)
{
	(void)device;
	*number = plays("narrow") ? 4 : 16;
	return OK;
}

int nvmlEventSetCreate(void **set)
{
	*set = (void *)1;
	return OK;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long kinds, void *set)
{
	(void)device;
	(void)kinds;
	(void)set;
	return plays("mig") ? NOT_SUPPORTED : OK;
}

struct event {
	void *device;
	unsigned long long kind, data;
	unsigned instance, compute;
};

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout)
{
	(void)set;
	(void)timeout;
	if ((!plays("xid") && !plays("second")) || passed() < 0.5 || told++)
		return TIMEOUT;
	memset(event, 0, sizeof(*event));
	event->device = (void *)(uintptr_t)(plays("second") ? 2 : 1);
	event->kind = 8;
	event->data = 31;
	return OK;
}
