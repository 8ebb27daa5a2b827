"""torchvision's wheel is compiled for CUDA. Beside a torch without it nobody declares its
operators, and without their names it does not import; SGLang imports it. So this comes first."""

import torch

if torch.version.cuda is None:
    for name in ("nms", "qnms"):
        arguments = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", arguments)
