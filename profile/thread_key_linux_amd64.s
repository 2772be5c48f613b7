#include "textflag.h"

// func threadKey() uint64
TEXT ·threadKey(SB), NOSPLIT, $0-8
	RDFSBASEQ AX
	MOVQ      AX, ret+0(FP)
	RET
