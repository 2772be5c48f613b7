//go:build nomodels

package builtin

var models []Model
