#include "textflag.h"

// func threadKey() uint64
TEXT ·threadKey(SB), NOSPLIT, $0-8
	RDFSBASEQ AX
	MOVQ      AX, ret+0(FP)
	RET

// func readLane(page *atomic.Uint32) (count, thread uint64, version uint32)
TEXT ·readLane(SB), NOSPLIT, $0-28
	MOVQ      page+0(FP), CX
	RDTSC
	SHLQ      $32, DX
	ORQ       DX, AX
	MOVQ      AX, count+8(FP)
	RDFSBASEQ AX
	MOVQ      AX, thread+16(FP)
	MOVL      (CX), AX
	MOVL      AX, version+24(FP)
	RET
