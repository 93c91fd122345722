//! DLPack's C exchange API: all that a product needs to know about a tensor, in one call.

use std::{ffi::c_void, mem::MaybeUninit, slice};

use pyo3::{prelude::*, types::PyCapsule};

use super::tensor::{Operand, Place, Properties, Shape};

/// Reads tensors by a function of PyTorch.
pub(super) struct Exchange(Describe);

/// `DLPackDLTensorFromPyObjectNoSync`: describes a tensor and returns 0, or sets an exception.
type Describe = unsafe extern "C" fn(tensor: *mut c_void, description: *mut DlTensor) -> i32;

/// `DLTensor`. Shape and strides belong to the tensor.
#[repr(C)]
struct DlTensor {
    data: usize,
    device_type: i32,
    device_index: i32,
    rank: i32,
    dtype: [u8; 4],
    shape: *const i64,
    strides: *const i64,
    byte_offset: usize,
}

/// The beginning of `DLPackExchangeAPI`, version 1.
#[repr(C)]
struct ExchangeApi {
    version: [u32; 2],
    older: *const c_void,
    others: [*const c_void; 3],
    describe: Option<Describe>,
}

impl Exchange {
    /// The function of a type of tensors, if it has one.
    pub(super) fn of(tensor_type: &Bound<'_, PyAny>) -> Option<Self> {
        let capsule = tensor_type.getattr("__dlpack_c_exchange_api__").ok()?;
        let api = capsule.cast::<PyCapsule>().ok()?.pointer_checked(Some(c"dlpack_exchange_api")).ok()?;
        // SAFETY: the capsule's name says what it points to, which lives as long as the process. Every
        // version begins with its number.
        #[allow(unsafe_code, reason = "another library hands out functions")]
        let describe = unsafe {
            let [major, _] = *api.cast::<[u32; 2]>().as_ref();
            if major == 1 { api.cast::<ExchangeApi>().as_ref().describe } else { None }
        };
        describe.map(Self)
    }

    /// Reads a tensor, which is of that type or a subclass.
    pub(super) fn read(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Operand> {
        let mut found = MaybeUninit::<DlTensor>::uninit();
        // SAFETY: the function gets a tensor, and fills the description unless it fails.
        #[allow(unsafe_code, reason = "another library hands out functions")]
        let found = unsafe {
            if (self.0)(tensor.as_ptr().cast(), found.as_mut_ptr()) != 0 {
                return Err(PyErr::fetch(tensor.py()));
            }
            found.assume_init()
        };
        let rank = usize::try_from(found.rank).unwrap_or(0);
        let place = match found.device_type {
            1 => Place::Cpu,
            2 => Place::Gpu(usize::try_from(found.device_index).unwrap_or(0)),
            _ => Place::Elsewhere,
        };
        // SAFETY: there are as many entries as dimensions; the tensor is alive, and its shape does not change
        // meanwhile.
        #[allow(unsafe_code, reason = "another library hands out addresses")]
        let [shape, strides] = [found.shape, found.strides]
            .map(|first| unsafe { if rank == 0 { &[] } else { slice::from_raw_parts(first, rank) } });
        let properties = Properties {
            place,
            dtype: usize::try_from(u32::from_ne_bytes(found.dtype)).unwrap_or(0),
            shape: Shape::new(shape)?,
            is_contiguous: is_contiguous(shape, strides),
        };
        let strides = Shape::new(strides)?;
        Ok(Operand { address: found.data + found.byte_offset, properties, strides })
    }
}

/// Whether elements follow each other in memory; the stride of a side of length 1 does not matter.
fn is_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().filter(|(side, _)| **side != 1).all(|(side, stride)| {
            let is_next = *stride == expected;
            expected *= side;
            is_next
        })
}
