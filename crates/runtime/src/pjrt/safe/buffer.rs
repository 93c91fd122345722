//! Arrays on the host and on devices.

use std::ptr::NonNull;

use super::client::ClientHandle;
use super::{Device, ElementType};
use crate::pjrt::result::{Error, ErrorCode, HostLayout};
use crate::pjrt::sys;

/// A row-major array in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    element: ElementType,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

/// Bytes of the wrong length for an array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an array {element}{dims:?} takes {needed} bytes, but got {held}")]
pub struct TensorError {
    element: ElementType,
    dims: Vec<usize>,
    needed: String,
    held: usize,
}

impl HostTensor {
    /// Makes an array from little-endian bytes.
    pub fn new(element: ElementType, dims: Vec<usize>, bytes: Vec<u8>) -> Result<Self, TensorError> {
        let needed = dims.iter().try_fold(element.bytes(), |product, dim| product.checked_mul(*dim));
        if needed != Some(bytes.len()) {
            return Err(TensorError {
                element,
                dims,
                needed: needed.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string()),
                held: bytes.len(),
            });
        }
        Ok(Self { element, dims, bytes })
    }

    /// The type of its elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Its dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The bytes of its elements, little endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An array in device memory.
#[derive(Debug)]
pub struct Buffer {
    client: ClientHandle,
    raw: NonNull<sys::Buffer>,
}

impl Buffer {
    /// Copies an array to a device.
    pub fn from_host(device: &Device<'_>, tensor: &HostTensor) -> Result<Self, Error> {
        let client = device.client();
        let dims: Vec<i64> = tensor.dims.iter().map(|dim| *dim as i64).collect();
        let element = tensor.element.raw();
        // SAFETY: the device belongs to the client, both are alive, and `HostTensor` holds as many bytes as
        // it says.
        let raw = unsafe {
            client.api().buffer_from_host(client.raw(), device.raw(), &tensor.bytes, element, &dims)
        }?;
        let client = client.clone();
        Ok(Self { client, raw })
    }

    /// Takes ownership of a buffer.
    ///
    /// # Safety
    /// `raw` must be a buffer of `client` that no one else destroys.
    pub(super) unsafe fn from_raw(client: ClientHandle, raw: NonNull<sys::Buffer>) -> Self {
        Self { client, raw }
    }

    /// Copies the array back, in row-major order whatever its layout on the device.
    pub fn to_host(&self) -> Result<HostTensor, Error> {
        let api = self.client.api();
        // SAFETY: the buffer is alive.
        let (number, dims) =
            unsafe { (api.buffer_element_type(self.raw)?, api.buffer_dimensions(self.raw)?) };
        let element = ElementType::from_raw(number).ok_or_else(|| Error::Plugin {
            code: ErrorCode::Unimplemented,
            message: format!("a result has PJRT element type {number}, which has no counterpart here"),
        })?;
        let dims: Vec<usize> = dims.into_iter().map(|dim| dim as usize).collect();
        let mut bytes = vec![0; dims.iter().product::<usize>() * element.bytes()];
        // SAFETY: the buffer is alive, and `bytes` is as long as its array.
        unsafe { api.buffer_to_host(self.raw, &HostLayout::row_major(dims.len()), &mut bytes) }?;
        Ok(HostTensor { element, dims, bytes })
    }

    pub(super) fn raw(&self) -> NonNull<sys::Buffer> {
        self.raw
    }

    pub(super) fn client(&self) -> &ClientHandle {
        &self.client
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this value owns the buffer. Errors cannot be reported here.
        let _ = unsafe { self.client.api().buffer_destroy(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_is_as_long_as_its_shape() {
        assert!(HostTensor::new(ElementType::Bf16, vec![2, 3], vec![0; 12]).is_ok());
        assert!(HostTensor::new(ElementType::F32, vec![], vec![0; 4]).is_ok());
        let error = HostTensor::new(ElementType::F8E4M3Fn, vec![2, 3], vec![0; 5]).unwrap_err();
        assert_eq!(error.to_string(), "an array f8e4m3fn[2, 3] takes 6 bytes, but got 5");
    }
}
