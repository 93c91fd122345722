//! Tensor maps for TMA.

use std::mem::MaybeUninit;

use cudarc::driver::sys;
use octile_core::plan::hopper::{RESULT_COLUMNS, STAGE_K};

use super::{Buffer, CudaError, error::DoingExt};

/// The tensor map of a row-major matrix of 8-bit codes, loaded in boxes of `box_rows` rows and one pipeline
/// stage of K. Out-of-bounds elements are loaded as zeros.
pub(super) fn encode(
    buffer: &Buffer,
    rows: usize,
    k: usize,
    stride: usize,
    box_rows: usize,
) -> Result<sys::CUtensorMap, CudaError> {
    let codes = sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8;
    encode_matrix(buffer, codes, (rows, k), stride, (box_rows, STAGE_K))
}

/// The tensor map of a row-major matrix of 16-bit results, stored in boxes of `box_rows` rows. Out-of-bounds
/// elements are not stored.
pub(super) fn encode_result(
    buffer: &Buffer,
    rows: usize,
    columns: usize,
    stride: usize,
    box_rows: usize,
) -> Result<sys::CUtensorMap, CudaError> {
    let halves = sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16;
    encode_matrix(buffer, halves, (rows, columns), 2 * stride, (box_rows, RESULT_COLUMNS))
}

/// The tensor map of a row-major matrix with a row stride in bytes, in the 128-byte swizzle.
fn encode_matrix(
    buffer: &Buffer,
    kind: sys::CUtensorMapDataType,
    (rows, columns): (usize, usize),
    stride: usize,
    (box_rows, box_columns): (usize, usize),
) -> Result<sys::CUtensorMap, CudaError> {
    let mut map = MaybeUninit::uninit();
    let dimensions = [columns as u64, rows as u64];
    let strides = [stride as u64];
    let moved = [box_columns as u32, box_rows as u32];
    let steps = [1, 1];
    // SAFETY: the arrays have the lengths for rank 2; the driver checks the numbers and writes the map.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            kind,
            2,
            std::ptr::with_exposed_provenance_mut(buffer.pointer() as usize),
            dimensions.as_ptr(),
            strides.as_ptr(),
            moved.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            // 256 bytes would prefetch the next stage's line, but is 1 to 3 % slower for a weight streamed
            // from HBM.
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .result()
    .doing("encode a tensor map")?;
    // SAFETY: the driver wrote it.
    Ok(unsafe { map.assume_init() })
}
