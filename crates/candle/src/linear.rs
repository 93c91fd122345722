//! The layer.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{
    CpuStorage, CustomOp1, DType, DeviceLocation, Error, Layout, Module, Result, Shape, Tensor, bail,
};
use candle_nn::{Init, VarBuilder};
use octile::{Block, Scales, Weight};

#[cfg(feature = "cuda")]
use crate::cuda::{self, CudaWeight};
use crate::{
    cpu::CpuWeight,
    ops::{OpKey, Place},
};

/// Names of the tensor of scales beside `weight`; both hold multipliers.
const SCALE_NAMES: [&str; 2] = ["weight_scale_inv", "weight_scale"];

/// A linear layer whose weight is fp8 with one scale per block: `x * transpose(weight) + bias`.
///
/// Takes activations of any rank in f32, bf16 or f16, and gives results of the same type. Clones share the
/// weight. For inference: a gradient through the layer is an error.
#[derive(Clone, Debug)]
pub struct Fp8Linear {
    product: Product,
    bias: Option<Tensor>,
}

impl Fp8Linear {
    /// Loads a layer of `[out_dim, in_dim]`: `weight` in F8_E4M3, `weight_scale_inv` or `weight_scale`, and
    /// `bias` if there is one.
    ///
    /// ```no_run
    /// use candle_core::{DType, Device};
    /// use candle_nn::VarBuilder;
    /// use octile_candle::Fp8Linear;
    ///
    /// let file = std::fs::read("model-00001-of-00004.safetensors")?;
    /// let vb = VarBuilder::from_buffered_safetensors(file, DType::BF16, &Device::Cpu)?;
    /// let up = Fp8Linear::load(1024, 3072, vb.pp("model.layers.0.mlp.up_proj"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let Some(scale_name) = SCALE_NAMES.into_iter().find(|name| vb.contains_tensor(name)) else {
            bail!(
                "{} has no weight_scale_inv: quantize the checkpoint, or load the layer with candle_nn::linear",
                vb.prefix()
            );
        };
        let weight = vb.get_with_hints_dtype((out_dim, in_dim), "weight", Init::Const(0.0), DType::F8E4M3)?;
        let scales = vb.get_unchecked_dtype(scale_name, DType::F32)?;
        let bias = if vb.contains_tensor("bias") { Some(vb.get(out_dim, "bias")?) } else { None };
        Self::new(&weight, &scales, bias).map_err(|error| error.context(vb.prefix()))
    }

    /// Makes a layer of a weight of `[N, K]` in F8_E4M3 with one f32 scale per block, on one device.
    ///
    /// The block (128, 256 or 512) follows from the shapes. On the CPU the weight is packed, which takes a
    /// copy; on a GPU the layer shares the memory of the tensors.
    pub fn new(weight: &Tensor, scales: &Tensor, bias: Option<Tensor>) -> Result<Self> {
        let product = Product::new(weight, scales)?;
        let [n, _] = product.key.shape;
        if let Some(bias) = &bias
            && bias.dims() != [n]
        {
            bail!("the bias has shape {:?}, expected [{n}]", bias.dims());
        }
        Ok(Self { product, bias })
    }

    /// Quantizes a weight of `[N, K]` to fp8 with one scale per 128 x 128 block.
    pub fn quantize(weight: &Tensor) -> Result<Self> {
        let (n, k) = weight.dims2()?;
        let values = weight.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        let quantized = Weight::quantize(&values, [n, k], Block::B128).map_err(Error::wrap)?;
        let device = weight.device();
        let codes = Tensor::from_raw_buffer(quantized.codes(), DType::F8E4M3, &[n, k], device)?;
        let blocks = (Block::B128.count(n), Block::B128.count(k));
        let scales = Tensor::from_slice(quantized.scales(), blocks, device)?;
        Self::new(&codes, &scales, None)
    }

    /// Sets which activations share a scale when they are quantized to fp8.
    ///
    /// The default is [`Scales::None`] on the CPU, where activations are multiplied as they are, and
    /// [`Scales::PerToken`] on GPUs, which multiply fp8 only. Choose [`Scales::PerToken`] on the CPU to get
    /// the results of a GPU up to rounding.
    pub fn with_activation_scales(mut self, scales: Scales) -> Result<Self> {
        self.product.key.scales = scales;
        self.product.key.op(octile::DType::F32)?;
        Ok(self)
    }

    /// Rounds activations to bf16 before they are multiplied, on the CPU. Results keep the type of the
    /// activations, and sums are f32.
    ///
    /// On CPUs with AMX many rows of bf16 are multiplied several times as fast as f32. The relative error of
    /// an activation is at most 2^-9; 8-bit formats such as GGUF's Q8_0 round activations more coarsely.
    pub fn with_rounded_activations(mut self) -> Result<Self> {
        if self.product.location != DeviceLocation::Cpu {
            bail!("GPUs quantize activations: rounding them to bf16 is for the CPU");
        }
        self.product.key.is_rounded = true;
        self.product.key.op(octile::DType::F32)?;
        Ok(self)
    }

    /// Rows and columns of the weight: results and features.
    pub fn shape(&self) -> [usize; 2] {
        self.product.key.shape
    }

    /// The bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Fp8Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [n, k] = self.product.key.shape;
        if x.dims().last() != Some(&k) {
            bail!("x has shape {:?}, but this layer of [{n}, {k}] takes {k} features", x.dims());
        }
        if !matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16) {
            bail!("x has type {}: convert it to f32, bf16 or f16", x.dtype().as_str());
        }
        let (place, layer_place) = (x.device().location(), self.product.location);
        if place != layer_place {
            bail!("x is on {place:?}, but the layer on {layer_place:?}: move one to the other's device");
        }
        let out = self.product.rows_of(x)?.apply_op1(self.product.clone())?;
        match &self.bias {
            None => Ok(out),
            Some(bias) => out.broadcast_add(&bias.to_dtype(out.dtype())?),
        }
    }
}

/// The multiplication as an operation of candle.
#[derive(Clone, Debug)]
struct Product {
    key: OpKey,
    location: DeviceLocation,
    weight: PlacedWeight,
}

#[derive(Clone, Debug)]
enum PlacedWeight {
    Cpu(Arc<CpuWeight>),
    #[cfg(feature = "cuda")]
    Cuda(Arc<CudaWeight>),
}

impl Product {
    fn new(weight: &Tensor, scales: &Tensor) -> Result<Self> {
        let (&[n, k], DType::F8E4M3) = (weight.dims(), weight.dtype()) else {
            bail!("the weight is {} {:?}, expected F8_E4M3 [N, K]", weight.dtype().as_str(), weight.dims());
        };
        let Some(block) =
            Block::ALL.into_iter().find(|block| scales.dims() == [block.count(n), block.count(k)])
        else {
            bail!(
                "scales of {:?} for a weight of [{n}, {k}]: expected one per block of 128, 256 or 512",
                scales.dims()
            );
        };
        if scales.dtype() != DType::F32 {
            bail!("the scales are {}: convert them to f32", scales.dtype().as_str());
        }
        if !weight.device().same_device(scales.device()) {
            bail!("weight and scales are on different devices: move both to one");
        }
        let key = |place, scales| OpKey { place, shape: [n, k], block, scales, is_rounded: false };
        let location = weight.device().location();
        let product = match location {
            DeviceLocation::Cpu => {
                let key = key(Place::Cpu, Scales::None);
                let weight = Arc::new(CpuWeight::pack(weight, scales, &key)?);
                Self { key, location, weight: PlacedWeight::Cpu(weight) }
            }
            #[cfg(feature = "cuda")]
            DeviceLocation::Cuda { gpu_id } => {
                let key = key(Place::Gpu(gpu_id), Scales::PerToken);
                let weight = Arc::new(CudaWeight::new(weight, scales)?);
                Self { key, location, weight: PlacedWeight::Cuda(weight) }
            }
            #[cfg(not(feature = "cuda"))]
            DeviceLocation::Cuda { .. } => {
                bail!("the weight is on a GPU: enable the feature cuda of octile-candle")
            }
            DeviceLocation::Metal { .. } => bail!("Metal is not supported: load the layer on the CPU"),
        };
        // Refuses what the device cannot multiply now, and not at the first call.
        product.key.op(octile::DType::F32)?;
        Ok(product)
    }

    /// The activations in contiguous rows, aligned for the device. Copied if they are not.
    fn rows_of(&self, x: &Tensor) -> Result<Tensor> {
        #[cfg(feature = "cuda")]
        if matches!(self.weight, PlacedWeight::Cuda(_))
            && !(x.layout().start_offset() * x.dtype().size_in_bytes()).is_multiple_of(cuda::ALIGNMENT)
        {
            return x.force_contiguous();
        }
        x.contiguous()
    }

    /// The shape of the results.
    fn out_shape(&self, layout: &Layout) -> Shape {
        let mut dims = layout.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = self.key.shape[0];
        }
        Shape::from(dims)
    }
}

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "fp8-linear"
    }

    #[cfg_attr(not(feature = "cuda"), allow(irrefutable_let_patterns, reason = "there is only the CPU"))]
    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let PlacedWeight::Cpu(weight) = &self.weight else {
            bail!("the layer is not on the CPU");
        };
        Ok((weight.forward(&self.key, storage, layout)?, self.out_shape(layout)))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let PlacedWeight::Cuda(weight) = &self.weight else {
            bail!("the layer is not on a GPU");
        };
        Ok((weight.forward(&self.key, storage, layout)?, self.out_shape(layout)))
    }
}
