#include "textflag.h"
#include "go_asm.h"

// func threadKey() uint64
TEXT ·threadKey(SB), NOSPLIT, $0-8
	RDFSBASEQ AX
	MOVQ      AX, ret+0(FP)
	RET

// func lookLane(c *LaneClock) (now int64, kept bool)
TEXT ·lookLane(SB), NOSPLIT, $0-17
	RDTSC
	MOVQ      c+0(FP), R8
	SHLQ      $32, DX
	ORQ       DX, AX
	SUBQ      (LaneClock_scale+scale_at)(R8), AX
	MULQ      (LaneClock_scale+scale_rate)(R8)
	SHRQ      $32, DX, AX
	ADDQ      (LaneClock_scale+scale_ns)(R8), AX
	MOVQ      AX, now+8(FP)
	MOVQ      LaneClock_page(R8), R9
	RDFSBASEQ R10
	MOVL      (R9), R11
	XORQ      LaneClock_thread(R8), R10
	XORL      LaneClock_version(R8), R11
	ORQ       R11, R10
	SETEQ     kept+16(FP)
	RET
