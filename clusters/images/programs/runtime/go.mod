module lva.io/operators/clusters/images/programs/runtime

go 1.26.0
