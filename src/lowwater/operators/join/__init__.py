"""The join of two streams on equal keys and near times: plans and kernels."""
