#include "textflag.h"
#include "go_asm.h"

// Go's prototypes are in batch_amd64.go. A vector has one value per run. Masks and
// registers that live through addStepWide:
//
//	K1 the runs          Z1 first   Z4 longest  Z7  1 in each
//	K6 stamps of others  Z2 last    Z5 parts    Z0  start
//	                     Z3 busy    Z6 negative if something is wrong

// SUM2 leaves the sum of v in the low half of X16 and that of w in its high half.
#define SUM2(v, w) \
	VPUNPCKLQDQ   w, v, Z16;     \
	VPUNPCKHQDQ   w, v, Z17;     \
	VPADDQ        Z17, Z16, Z16; \
	VEXTRACTI64X4 $1, Z16, Y17;  \
	VPADDQ        Y17, Y16, Y16; \
	VEXTRACTI32X4 $1, Y16, X17;  \
	VPADDQ        X17, X16, X16

// FOLD leaves op over all of v in each of v.
#define FOLD(op, v) \
	VSHUFI64X2 $0x4e, v, v, Z17; \
	op         Z17, v, v;        \
	VSHUFI64X2 $0xb1, v, v, Z17; \
	op         Z17, v, v;        \
	VPSHUFD    $0x4e, v, Z17;    \
	op         Z17, v, v

// PAIR loads the stamps of two runs, arrive, begin, end and a word of the next step each:
// at i words from the lane's first pointer, and at i+2.
#define PAIR(i, y, z) \
	MOVQ         (8*i)(R8), R10;           \
	MOVQ         (8*i+16)(R8), R11;        \
	VMOVDQU64    (R10)(R9*1), y;           \
	VINSERTI64X4 $1, (R11)(R9*1), z, z

// func addStepWide(b *batch, s int, runs uint, lanes []laneSum) (bad, old bool)
TEXT ·addStepWide(SB), NOSPLIT, $0-50
	MOVQ b+0(FP), DI
	MOVQ s+8(FP), SI
	MOVQ runs+16(FP), CX
	MOVQ lanes_base+24(FP), DX
	MOVQ lanes_len+32(FP), BX

	MOVQ  $1, AX
	SHLQ  CX, AX
	DECQ  AX
	KMOVB AX, K1
	KXORB K6, K6, K6

	MOVQ  $1, AX
	VPBROADCASTQ AX, Z7
	MOVQ  $0x7fffffffffffffff, AX
	VPBROADCASTQ AX, Z1
	VMOVDQA64 Z1, Z15
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VMOVDQU64 batch_start(DI), Z0

	IMUL3Q $StepStamps__size, SI, R9
	MOVQ   batch_stamps(DI), R8
	MOVQ   BX, R12
	MOVQ   DX, R13

lane:
	PAIR(0, Y8, Z8)   // runs 0 and 2
	PAIR(1, Y9, Z9)   // 1 and 3
	PAIR(4, Y10, Z10) // 4 and 6
	PAIR(5, Y11, Z11) // 5 and 7
	VPUNPCKLQDQ Z9, Z8, Z12
	VPUNPCKHQDQ Z9, Z8, Z13
	VPUNPCKLQDQ Z11, Z10, Z14
	VPUNPCKHQDQ Z11, Z10, Z16
	VSHUFI64X2  $0x88, Z14, Z12, Z8  // arrive
	VSHUFI64X2  $0x88, Z16, Z13, Z9  // begin
	VSHUFI64X2  $0xdd, Z14, Z12, Z10 // end

	// Stamps of this run, and what older runs have left.
	VPCMPQ     $5, Z0, Z8, K1, K3
	KANDNB     K1, K3, K4
	VMOVDQA64  Z8, Z11
	VPTERNLOGQ $0xfe, Z10, Z9, Z11
	VPTESTMQ   Z11, Z11, K4, K5
	KORB       K5, K6, K6

	VPSUBQ.Z   Z9, Z10, K3, Z13 // took
	VPSUBQ.Z   Z8, Z9, K3, Z14  // waited
	VPTERNLOGQ $0xfe, Z14, Z13, Z6
	VPADDQ     Z13, Z3, Z3
	VPMAXSQ    Z13, Z4, Z4
	VPADDQ     Z7, Z5, K3, Z5
	VPMINSQ    Z9, Z1, K3, Z1
	VPMAXSQ    Z10, Z2, K3, Z2
	SUM2(Z13, Z14)
	VMOVDQU64  X16, laneSum_compute(R13)

	ADDQ $64, R8
	ADDQ $laneSum__size, R13
	DECQ R12
	JNZ  lane

	// even: time of the calls that so many lanes had a part in.
	VMOVDQA64 Z7, Z8
	MOVQ      DX, R13

even:
	VPCMPEQQ    Z8, Z5, K1, K4
	VMOVDQA64.Z Z3, K4, Z9
	FOLD(VPADDQ, Z9)
	VMOVQ       X9, laneSum_even(R13)
	VPADDQ      Z7, Z8, Z8
	ADDQ        $laneSum__size, R13
	DECQ        BX
	JNZ         even

	// The span of each call.
	VPSUBQ.Z     Z1, Z2, K1, Z8
	VPORQ        Z8, Z6, Z6
	VMOVDQU64    batch_ended(DI), Z9
	MOVQ         batch_after(DI), R10
	VPBROADCASTQ (R10)(SI*8), Z10
	VPANDQ       Z9, Z10, Z10
	VPMAXSQ      Z10, Z1, Z1
	VPMINSQ      Z2, Z1, Z1           // begin
	VPSUBQ.Z     Z1, Z2, K1, Z8       // took
	VPSUBQ.Z     Z9, Z1, K1, Z10
	VPORQ        batch_overlap(DI), Z10, Z10
	VMOVDQU64    Z10, batch_overlap(DI)
	VPMAXSQ      Z2, Z9, K1, Z9
	VMOVDQU64    Z9, batch_ended(DI)

	// histIndex, as batchRuns numbers of 16 bits.
	MOVQ         $60, AX
	VPBROADCASTQ AX, Z10
	MOVQ         $7, AX
	VPBROADCASTQ AX, Z11
	MOVQ         $(const_histBuckets-1), AX
	VPBROADCASTQ AX, Z12
	VPLZCNTQ     Z8, Z9
	VPSUBQ       Z9, Z10, Z9          // octaves beyond the first eight numbers
	VPSRLVQ      Z9, Z8, Z10
	VPANDQ       Z11, Z10, Z10
	VPADDQ       Z7, Z9, Z9
	VPSLLQ       $const_histSub, Z9, Z9
	VPADDQ       Z10, Z9, Z9
	VPMINSQ      Z12, Z9, Z9
	VPCMPQ       $2, Z11, Z8, K4      // up to 7
	VMOVDQA64    Z8, K4, Z9
	IMUL3Q       $stepSum__size, SI, R10
	ADDQ         batch_steps(DI), R10
	VPMOVQW      Z9, X9
	VMOVDQU64    X9, stepSum_bucket(R10)

	SUM2(Z8, Z4)
	VMOVQ     X16, stepSum_span(R10)
	VPEXTRQ   $1, X16, stepSum_longest(R10)
	VMOVDQA64 Z8, K1, Z15             // MaxInt64 where there is no run
	FOLD(VPMINSQ, Z15)
	VMOVQ     X15, stepSum_least(R10)
	FOLD(VPMAXSQ, Z8)
	VMOVQ     X8, stepSum_most(R10)

	VPMOVQ2M Z6, K5
	KTESTB   K5, K5
	SETNE    bad+48(FP)
	KTESTB   K6, K6
	SETNE    old+49(FP)
	VZEROUPPER
	RET
