module hotpath/kernelgen

go 1.26.0
