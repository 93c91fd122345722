//! Buffers: arrays in device memory.

use std::ffi::c_int;
use std::ptr::NonNull;

use super::{Api, Result, call, object, slice};
use crate::pjrt::sys;

/// The row-major layout of `rank` dimensions, minor to major as PJRT expects.
#[derive(Debug)]
pub struct HostLayout {
    minor_to_major: Vec<i64>,
}

impl HostLayout {
    /// The row-major layout.
    pub fn row_major(rank: usize) -> Self {
        Self { minor_to_major: (0..rank as i64).rev().collect() }
    }

    /// The C form, which points into `self`.
    fn as_raw(&self) -> sys::MemoryLayout {
        sys::MemoryLayout {
            minor_to_major: self.minor_to_major.as_ptr(),
            minor_to_major_size: self.minor_to_major.len(),
            ..Default::default()
        }
    }
}

impl Api {
    /// Copies row-major host memory to a device. The host memory may change as soon as this returns.
    ///
    /// # Safety
    /// `client` must be a live client of this plugin and `device` one of its devices; `data` must hold the
    /// bytes of `dims` and `element_type`.
    pub unsafe fn buffer_from_host(
        self,
        client: NonNull<sys::Client>,
        device: NonNull<sys::Device>,
        data: &[u8],
        element_type: c_int,
        dims: &[i64],
    ) -> Result<NonNull<sys::Buffer>> {
        let mut args = sys::BufferFromHostArgs {
            client: client.as_ptr(),
            data: data.as_ptr().cast(),
            element_type,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: sys::HOST_BUFFER_IMMUTABLE_ONLY_DURING_CALL,
            device: device.as_ptr(),
            ..Default::default()
        };
        call!(self, client_buffer_from_host_buffer, &mut args)?;
        let buffer = object(args.buffer, "client_buffer_from_host_buffer")?;
        if let Some(event) = NonNull::new(args.done_with_host_buffer) {
            // SAFETY: the call returned ownership of the event.
            if let Err(error) = unsafe { self.event_finish(event) } {
                // SAFETY: the call returned ownership of the buffer.
                let _ = unsafe { self.buffer_destroy(buffer) };
                return Err(error);
            }
        }
        Ok(buffer)
    }

    /// Frees a buffer and its device memory.
    ///
    /// # Safety
    /// `buffer` must be a live buffer of this plugin.
    pub unsafe fn buffer_destroy(self, buffer: NonNull<sys::Buffer>) -> Result<()> {
        let mut args = sys::BufferDestroyArgs { handle: buffer.as_ptr(), ..Default::default() };
        call!(self, buffer_destroy, &mut args)
    }

    /// The PJRT number of the buffer's element type.
    ///
    /// # Safety
    /// `buffer` must be a live buffer of this plugin.
    pub unsafe fn buffer_element_type(self, buffer: NonNull<sys::Buffer>) -> Result<c_int> {
        let mut args = sys::BufferElementTypeArgs { buffer: buffer.as_ptr(), ..Default::default() };
        call!(self, buffer_element_type, &mut args)?;
        Ok(args.element_type)
    }

    /// The buffer's dimensions, outermost first.
    ///
    /// # Safety
    /// `buffer` must be a live buffer of this plugin.
    pub unsafe fn buffer_dimensions(self, buffer: NonNull<sys::Buffer>) -> Result<Vec<i64>> {
        let mut args = sys::BufferDimensionsArgs { buffer: buffer.as_ptr(), ..Default::default() };
        call!(self, buffer_dimensions, &mut args)?;
        // SAFETY: the list lives as long as the buffer.
        Ok(unsafe { slice(args.dims, args.num_dims) }.to_vec())
    }

    /// Copies a buffer to host memory and waits for the copy.
    ///
    /// # Safety
    /// `buffer` must be a live buffer of this plugin, and `host` must be as long as its array.
    pub unsafe fn buffer_to_host(
        self,
        buffer: NonNull<sys::Buffer>,
        layout: &HostLayout,
        host: &mut [u8],
    ) -> Result<()> {
        let mut layout = layout.as_raw();
        let mut args = sys::BufferToHostArgs {
            src: buffer.as_ptr(),
            host_layout: &mut layout,
            dst: host.as_mut_ptr().cast(),
            dst_size: host.len(),
            ..Default::default()
        };
        call!(self, buffer_to_host_buffer, &mut args)?;
        match NonNull::new(args.event) {
            // SAFETY: the call returned ownership of the event.
            Some(event) => unsafe { self.event_finish(event) },
            None => Ok(()),
        }
    }
}
