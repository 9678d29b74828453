module lva.io/operators/labs/06-acme

go 1.26.0
