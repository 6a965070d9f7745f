"""The join of two streams on equal keys and near times: its plans and kernels."""
