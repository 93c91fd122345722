//! A call from XLA: its buffers and attributes as slices and numbers, and its errors.

use std::{
    ffi::{CString, c_int, c_void},
    mem::offset_of,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
};

use super::sys;

/// Why a call fails, in one sentence.
pub(super) type Result<T> = std::result::Result<T, String>;

/// The stage of an execution that a handler is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before execution, outside of a graph capture. Buffers must not be touched.
    Initialize,
    /// The execution.
    Execute,
}

/// One call.
pub(super) struct Frame<'a>(&'a sys::CallFrame);

/// Answers a call of XLA with `body`. A panic becomes an error.
///
/// # Safety
/// `frame` is a call frame of XLA.
pub(super) unsafe fn answer(
    frame: *mut sys::CallFrame,
    traits: u32,
    body: fn(&Frame<'_>, Stage) -> Result<()>,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let raw = unsafe { &*frame };
    // SAFETY: XLA's extensions begin with their kind, and one that asks for metadata has this type.
    unsafe {
        if !raw.extension.is_null() && (*raw.extension).kind == sys::METADATA {
            let metadata = (*raw.extension.cast::<sys::MetadataExtension>()).metadata;
            ((*metadata).version.major, (*metadata).version.minor) = sys::VERSION;
            (*metadata).traits = traits;
            return ptr::null_mut();
        }
    }
    let frame = Frame(raw);
    let stage = match raw.stage {
        sys::STAGE_INITIALIZE => Stage::Initialize,
        sys::STAGE_EXECUTE => Stage::Execute,
        _ => return ptr::null_mut(),
    };
    match catch_unwind(AssertUnwindSafe(|| body(&frame, stage))) {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(sentence)) => frame.error(sys::ErrorCode::InvalidArgument, &sentence),
        Err(_) => frame.error(sys::ErrorCode::Internal, "a panic in the kernel: please report it"),
    }
}

impl<'a> Frame<'a> {
    fn api(&self) -> &'a sys::Api {
        // SAFETY: XLA passes its API with every call.
        unsafe { &*self.0.api }
    }

    /// An error for XLA, which takes ownership.
    fn error(&self, code: sys::ErrorCode, sentence: &str) -> *mut c_void {
        let message = CString::new(format!("octile: {sentence}").replace('\0', " ")).unwrap_or_default();
        let mut create = sys::ErrorCreate {
            size: offset_of!(sys::ErrorCreate, code) + size_of::<c_int>(),
            extension: ptr::null_mut(),
            message: message.as_ptr(),
            code,
        };
        // SAFETY: the message is copied before the call returns.
        unsafe { (self.api().error_create)(&mut create) }
    }

    /// Turns an error that XLA returned, and that is ours now, into a sentence.
    fn check(&self, error: *mut c_void, sentence: &str) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let size = size_of::<sys::ErrorDestroy>();
        let mut destroy = sys::ErrorDestroy { size, extension: ptr::null_mut(), error };
        // SAFETY: the error is not used again.
        unsafe { (self.api().error_destroy)(&mut destroy) };
        Err(sentence.to_owned())
    }

    /// The CUDA stream of the execution.
    pub(super) fn stream(&self) -> Result<*mut c_void> {
        let mut get = sys::StreamGet {
            size: size_of::<sys::StreamGet>(),
            extension: ptr::null_mut(),
            context: self.0.context,
            stream: ptr::null_mut(),
        };
        // SAFETY: the context is that of this call.
        let error = unsafe { (self.api().stream_get)(&mut get) };
        self.check(error, "XLA has no stream for this call")?;
        Ok(get.stream)
    }

    /// The ordinal of the device.
    pub(super) fn device_ordinal(&self) -> Result<usize> {
        const MISSING: &str = "XLA does not say on which GPU it runs: update jax";
        let end = offset_of!(sys::Api, device_ordinal_get) + size_of::<usize>();
        if self.api().size < end {
            return Err(MISSING.to_owned());
        }
        let mut get = sys::DeviceOrdinalGet {
            size: offset_of!(sys::DeviceOrdinalGet, ordinal) + size_of::<i32>(),
            extension: ptr::null_mut(),
            context: self.0.context,
            ordinal: -1,
        };
        // SAFETY: the context is that of this call.
        let error = unsafe { (self.api().device_ordinal_get)(&mut get) };
        self.check(error, MISSING)?;
        usize::try_from(get.ordinal).map_err(|_| MISSING.to_owned())
    }

    /// The arguments.
    pub(super) fn arguments<const N: usize>(&self) -> Result<[Buffer<'a>; N]> {
        buffers(&self.0.arguments, "arguments")
    }

    /// The number of arguments.
    pub(super) fn argument_count(&self) -> usize {
        self.0.arguments.len as usize
    }

    /// The results.
    pub(super) fn results<const N: usize>(&self) -> Result<[Buffer<'a>; N]> {
        buffers(&self.0.results, "results")
    }

    fn attribute(&self, name: &str, kind: c_int) -> Result<*const c_void> {
        let attributes = &self.0.attributes;
        for index in 0..attributes.len as usize {
            // SAFETY: there are `len` names, kinds and values.
            unsafe {
                let span = &**attributes.names.add(index);
                if bytes(span) == name.as_bytes() && *attributes.types.add(index) == kind {
                    return Ok(*attributes.items.add(index));
                }
            }
        }
        Err(format!("attribute {name} is missing: was the program lowered by another version of octile?"))
    }

    /// An integer attribute that is not negative.
    pub(super) fn number(&self, name: &str) -> Result<usize> {
        let scalar = self.attribute(name, sys::ATTRIBUTE_SCALAR)?.cast::<sys::Scalar>();
        // SAFETY: attributes of this kind are scalars, and their value has the type that they say.
        let value = unsafe {
            match (*scalar).dtype {
                sys::dtype::S64 => Some(*(*scalar).value.cast::<i64>()),
                _ => None,
            }
        };
        let value = value.and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| format!("attribute {name} is not an unsigned number"))
    }

    /// A string attribute.
    pub(super) fn text(&self, name: &str) -> Result<&'a str> {
        let span = self.attribute(name, sys::ATTRIBUTE_STRING)?.cast::<sys::ByteSpan>();
        // SAFETY: attributes of this kind are spans that outlive the call.
        let text = unsafe { bytes(&*span) };
        str::from_utf8(text).map_err(|_| format!("attribute {name} is not text"))
    }
}

/// # Safety
/// The span is XLA's and outlives `'a`.
unsafe fn bytes<'a>(span: &sys::ByteSpan) -> &'a [u8] {
    match span.len {
        0 => &[],
        // SAFETY: XLA's spans are valid.
        len => unsafe { slice::from_raw_parts(span.ptr, len) },
    }
}

fn buffers<'a, const N: usize>(found: &'a sys::Buffers, what: &str) -> Result<[Buffer<'a>; N]> {
    if found.len as usize != N {
        return Err(format!("got {} {what}, but {N} are expected", found.len));
    }
    // SAFETY: there are `len` pointers to buffers.
    Ok(std::array::from_fn(|index| Buffer(unsafe { &**found.items.add(index) })))
}

/// An argument or result.
#[derive(Clone, Copy)]
pub(super) struct Buffer<'a>(&'a sys::Buffer);

impl<'a> Buffer<'a> {
    /// The shape.
    pub(super) fn shape(self) -> &'a [i64] {
        match self.0.rank {
            0 => &[],
            // SAFETY: there are `rank` extents.
            rank => unsafe { slice::from_raw_parts(self.0.dims, rank as usize) },
        }
    }

    /// Requires an element type and a number of elements.
    pub(super) fn require(self, what: &str, dtype: c_int, len: usize) -> Result<Self> {
        if self.0.dtype != dtype {
            return Err(format!("{what} has XLA's element type {}, not {dtype}", self.0.dtype));
        }
        let found = self
            .shape()
            .iter()
            .try_fold(1usize, |product, &extent| product.checked_mul(usize::try_from(extent).ok()?));
        match found {
            Some(found) if found == len => Ok(self),
            _ => Err(format!("{what} has shape {:?}, which is not {len} elements", self.shape())),
        }
    }

    /// The address, in host or device memory.
    pub(super) fn address(self) -> *mut c_void {
        self.0.data
    }

    /// The elements in host memory.
    ///
    /// # Safety
    /// The buffer is in host memory, was required to have `len` elements of the size of `T`, and any bits are
    /// a `T`.
    pub(super) unsafe fn slice<T>(self, what: &str, len: usize) -> Result<&'a [T]> {
        if len == 0 {
            return Ok(&[]);
        }
        self.require_alignment::<T>(what)?;
        // SAFETY: the caller's promise; XLA keeps arguments alive and unchanged during the call.
        Ok(unsafe { slice::from_raw_parts(self.0.data.cast(), len) })
    }

    /// The elements of a result in host memory.
    ///
    /// # Safety
    /// As for [`Buffer::slice`]; and the buffer is a result, taken only once.
    pub(super) unsafe fn slice_mut<T>(self, what: &str, len: usize) -> Result<&'a mut [T]> {
        if len == 0 {
            return Ok(&mut []);
        }
        self.require_alignment::<T>(what)?;
        // SAFETY: the caller's promise; nobody else accesses a result during the call.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.data.cast(), len) })
    }

    fn require_alignment<T>(self, what: &str) -> Result<()> {
        if self.0.data.is_null() || !self.0.data.cast::<T>().is_aligned() {
            return Err(format!("{what} is not aligned to its elements"));
        }
        Ok(())
    }
}
