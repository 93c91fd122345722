//! Products of operands that belong to another library, which hands out their addresses.

use std::{ffi::c_void, slice};

use octile::{DType, Device, DeviceOperands, MatmulOp, ScaleLayout, Scales, WeightRef, packed};
use pyo3::prelude::*;

use crate::{block::BlockSize, dtype, error, finite, packed::Packed, weight::cpu};

/// A multiplication of one shape and type on one device, without its operands.
///
/// Not for users: addresses are trusted. The caller has checked that the memory behind them has the shape and
/// type of this multiplication, is on its device, has no gaps, and stays alive.
#[pyclass(frozen, module = "octile._native")]
pub(crate) struct Multiplication {
    op: MatmulOp,
    x: DType,
    out: DType,
}

/// Addresses of activations, and of their scales if they are fp8.
#[derive(Clone, Copy)]
pub(crate) struct ActivationAddresses {
    pub x: usize,
    pub x_scales: usize,
    pub layout: Option<ScaleLayout>,
}

#[pymethods]
impl Multiplication {
    /// `device` is the index of a GPU, or -1 for the CPU; types have numpy's names. With `constant_weight`
    /// the caller promises that the preceding kernel does not write the weight.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "one number per dimension")]
    pub(crate) fn new(
        py: Python<'_>,
        device: i64,
        n: usize,
        k: usize,
        block: BlockSize,
        x_dtype: &str,
        out_dtype: &str,
        constant_weight: bool,
    ) -> PyResult<Self> {
        let (x, out) = (dtype::named(x_dtype)?, dtype::named(out_dtype)?);
        let BlockSize(block) = block;
        let build = || {
            let device = match usize::try_from(device) {
                Ok(index) => Device::gpu(index)?,
                Err(_) => cpu()?.clone(),
            };
            let builder =
                MatmulOp::builder(&device, [n, k], block).activations(x, Scales::PerToken).output(out);
            if constant_weight { builder.with_constant_weight() } else { builder }.build()
        };
        Ok(Self { op: py.detach(build).map_err(error::from_library)?, x, out })
    }

    /// Multiplies `m` rows on the CPU; the weight and the scales of x are row-major.
    #[allow(clippy::too_many_arguments, reason = "one address per operand")]
    fn run(
        &self,
        py: Python<'_>,
        x: usize,
        x_scales: usize,
        w: usize,
        w_scales: usize,
        out: usize,
        m: usize,
    ) -> PyResult<()> {
        let activations = ActivationAddresses { x, x_scales, layout: None };
        self.run_with(py, self.weight_at(w, w_scales)?, activations, out, m)
    }

    /// The same with a packed weight of so many bytes.
    #[allow(clippy::too_many_arguments, reason = "one address per operand")]
    fn run_packed(
        &self,
        py: Python<'_>,
        x: usize,
        x_scales: usize,
        packed: usize,
        packed_bytes: usize,
        out: usize,
        m: usize,
    ) -> PyResult<()> {
        // SAFETY: the caller's promise, see `Multiplication`.
        #[allow(unsafe_code, reason = "another library hands out addresses")]
        let weight = WeightRef::Packed(unsafe { at(packed, packed_bytes) }?);
        self.run_with(py, weight, ActivationAddresses { x, x_scales, layout: None }, out, m)
    }
}

impl Multiplication {
    /// [N, K].
    pub(crate) fn shape(&self) -> [usize; 2] {
        self.op.shape()
    }

    /// Number of blocks of K, each of which has a scale in every row.
    pub(crate) fn k_blocks(&self) -> usize {
        self.op.block().count(self.op.shape()[1])
    }

    /// Bytes of scratch memory that `enqueue` needs.
    pub(crate) fn workspace_bytes(&self, m: usize) -> PyResult<usize> {
        self.op.workspace_bytes(m).map_err(error::from_library)
    }

    /// Queues the product of `m` rows on a CUDA stream.
    pub(crate) fn enqueue(
        &self,
        py: Python<'_>,
        stream: usize,
        operands: &DeviceOperands,
        m: usize,
    ) -> PyResult<()> {
        // The first call compiles, which takes a while.
        let queue = || {
            // SAFETY: the caller's promise, see `Multiplication`.
            #[allow(unsafe_code, reason = "another library hands out addresses")]
            unsafe {
                self.op.enqueue(stream as *mut c_void, operands, m)
            }
        };
        py.detach(queue).map_err(error::from_library)
    }

    /// Plans and compiles for `m` rows, so that the first call does not.
    pub(crate) fn prepare(&self, py: Python<'_>, m: usize) -> PyResult<()> {
        py.detach(|| self.op.prepare(m)).map_err(error::from_library)
    }

    /// Packs a row-major weight.
    pub(crate) fn pack(&self, py: Python<'_>, w: usize, w_scales: usize) -> PyResult<Packed> {
        let (shape, block) = (self.op.shape(), self.op.block());
        let WeightRef::Rows { codes, scales } = self.weight_at(w, w_scales)? else { unreachable!("rows") };
        py.detach(|| Packed::new(codes, scales, shape, block)).map_err(error::from_library)
    }

    /// A row-major weight.
    pub(crate) fn weight_at(&self, w: usize, w_scales: usize) -> PyResult<WeightRef<'_>> {
        let ([n, k], block) = (self.op.shape(), self.op.block());
        // SAFETY: the caller's promise, see `Multiplication`.
        #[allow(unsafe_code, reason = "another library hands out addresses")]
        unsafe {
            let (codes, scales) = (at(w, n * k)?, at(w_scales, block.count(n) * block.count(k))?);
            Ok(WeightRef::Rows { codes, scales })
        }
    }

    /// Multiplies `m` rows on the CPU.
    pub(crate) fn run_with(
        &self,
        py: Python<'_>,
        weight: WeightRef<'_>,
        ActivationAddresses { x, x_scales, layout }: ActivationAddresses,
        out: usize,
        m: usize,
    ) -> PyResult<()> {
        // Without rows there may be no memory, and addresses are arbitrary.
        if m == 0 {
            return Ok(());
        }
        let [n, k] = self.op.shape();
        let groups = (m, self.k_blocks());
        let scales = match self.x {
            DType::F8E4M3 => layout.unwrap_or(ScaleLayout::k_major(groups)).span(groups),
            DType::F32 | DType::BF16 | DType::F16 => 0,
        };
        // SAFETY: the caller's promise, see `Multiplication`.
        #[allow(unsafe_code, reason = "another library hands out addresses")]
        let (x, x_scales, out) = unsafe {
            (
                at(x, m * k * dtype::size(self.x))?,
                at(x_scales, scales)?,
                at_mut(out, m * n * dtype::size(self.out))?,
            )
        };
        let types = [self.x, self.out];
        py.detach(|| finite::run_bytes(&self.op, types, weight, (x, x_scales, layout), out))
            .map_err(error::from_library)
    }
}

/// Rows and bytes per row of a packed weight [n, k].
#[pyfunction]
pub(crate) fn packed_shape(n: usize, k: usize, block: BlockSize) -> PyResult<(usize, usize)> {
    packed::shape([n, k], block.0).map(Into::into).map_err(error::from_library)
}

/// Packs row-major codes and scales at these addresses, which are trusted as those of `Multiplication` are.
#[pyfunction]
pub(crate) fn pack_into(
    py: Python<'_>,
    codes: usize,
    scales: usize,
    n: usize,
    k: usize,
    block: BlockSize,
    out: usize,
) -> PyResult<()> {
    let BlockSize(block) = block;
    let [panels, bytes] = packed::shape([n, k], block).map_err(error::from_library)?;
    // SAFETY: the caller's promise.
    #[allow(unsafe_code, reason = "another library hands out addresses")]
    let (codes, scales, out) = unsafe {
        (at(codes, n * k)?, at(scales, block.count(n) * block.count(k))?, at_mut(out, panels * bytes)?)
    };
    py.detach(|| packed::pack_into(codes, scales, [n, k], block, out)).map_err(error::from_library)
}

/// # Safety
/// As for `slice::from_raw_parts`; null and alignment are checked, and an empty slice may be anywhere.
#[allow(unsafe_code, reason = "another library hands out addresses")]
unsafe fn at<'a, T>(address: usize, len: usize) -> PyResult<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_address::<T>(address)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(address as *const T, len) })
}

/// # Safety
/// As for `slice::from_raw_parts_mut`; null and alignment are checked, and an empty slice may be anywhere.
#[allow(unsafe_code, reason = "another library hands out addresses")]
unsafe fn at_mut<'a, T>(address: usize, len: usize) -> PyResult<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_address::<T>(address)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(address as *mut T, len) })
}

/// Checks the address of elements.
pub(crate) fn require_memory(address: usize) -> PyResult<()> {
    // Nothing lies in the first page: these are offsets into storage that was freed.
    if address < 4096 {
        return Err(error::value("a tensor has no memory: its storage was freed"));
    }
    Ok(())
}

fn check_address<T>(address: usize) -> PyResult<()> {
    require_memory(address)?;
    if (address as *const T).is_aligned() {
        return Ok(());
    }
    Err(error::value("a tensor of scales is misaligned in memory: clone it"))
}
