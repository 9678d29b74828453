module lva.io/operators/clusters/images/programs/site

go 1.26.0
