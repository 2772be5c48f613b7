package bf16

//go:noescape
func normRowsRMS(t *normArgs)

//go:noescape
func normRowsRMSAdd(t *normArgs)

//go:noescape
func normRowsRMSNormAdd(t *normArgs)

//go:noescape
func normRowsLayer(t *normArgs)

//go:noescape
func normRowsLayerAdd(t *normArgs)

// normRows runs the kernel of a kind; a table of functions would move its
// arguments to the heap.
func normRows(kind NormKind, t *normArgs) {
	switch kind {
	case RMS:
		normRowsRMS(t)
	case RMSAdd:
		normRowsRMSAdd(t)
	case RMSNormAdd:
		normRowsRMSNormAdd(t)
	case Layer:
		normRowsLayer(t)
	case LayerAdd:
		normRowsLayerAdd(t)
	}
}
