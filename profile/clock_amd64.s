#include "textflag.h"
#include "go_asm.h"

// func own(p *int64)
TEXT ·own(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	RET

// func Now() int64
TEXT ·Now(SB), NOSPLIT, $0-8
	RDTSC
	CMPL ·counter+tsc_trusted(SB), $0
	JEQ  untrusted
	SHLQ $32, DX
	ORQ  DX, AX
	SUBQ ·counter+(tsc_scale+scale_at)(SB), AX
	JCS  untrusted // read before another goroutine calibrated
	MULQ ·counter+(tsc_scale+scale_rate)(SB)
	SHRQ $32, DX, AX
	ADDQ ·counter+(tsc_scale+scale_ns)(SB), AX
	MOVQ AX, ret+0(FP)
	RET

untrusted:
	JMP ·system(SB)

// func readCounter() uint64
TEXT ·readCounter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func ownAll(p *int64, size uintptr)
TEXT ·ownAll(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ size+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX

line:
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JB   line
	RET
