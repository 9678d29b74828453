module lva.io/operators/clusters/images/programs/pause

go 1.26.0
