//go:build !nogpu

package main

import _ "hotpath/cuda" // devices that are loaded at run time
