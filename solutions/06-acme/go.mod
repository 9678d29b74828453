module lva.io/operators/solutions/06-acme

go 1.26.0
