//! One function per C call. Errors are values, strings and lists are copied, and objects that the caller must
//! destroy are returned as raw handles: [`super::safe`] owns them.

mod buffer;
mod client;
mod executable;
mod named;
mod topology;

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use super::sys;

pub use buffer::HostLayout;
pub use named::{NamedValue, Value};

/// PJRT status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum ErrorCode {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl ErrorCode {
    const ALL: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code with this number; unknown numbers are [`ErrorCode::Unknown`].
    pub fn from_raw(raw: i32) -> Self {
        Self::ALL.into_iter().find(|code| *code as i32 == raw).unwrap_or(Self::Unknown)
    }
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin reports an error.
    #[error("{message}")]
    Plugin {
        /// Its code.
        code: ErrorCode,
        /// The plugin's message.
        message: String,
    },
    /// The plugin does not implement the function.
    #[error("this PJRT plugin (API {major}.{minor}) does not implement {function}")]
    Missing {
        /// The function's name in the table.
        function: &'static str,
        /// The plugin's version.
        major: c_int,
        /// The plugin's version.
        minor: c_int,
    },
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The plugin's function table, valid while the library is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Api(NonNull<sys::Api>);

/// Reads a function of the table, if the plugin's table is that long.
macro_rules! function {
    ($api:expr, $field:ident) => {{
        let api: $crate::pjrt::result::Api = $api;
        let end = std::mem::offset_of!($crate::pjrt::sys::Api, $field) + size_of::<usize>();
        let found = if api.size() >= end {
            // SAFETY: the table is alive (`Api::new`) and, by its size, has this field.
            unsafe { (*api.as_ptr()).$field }
        } else {
            None
        };
        found.ok_or_else(|| api.missing(stringify!($field)))
    }};
}

/// Calls a function of the table with `args` and converts its error.
macro_rules! call {
    ($api:expr, $field:ident, $args:expr) => {{
        let api: $crate::pjrt::result::Api = $api;
        $crate::pjrt::result::function!(api, $field).and_then(|function| {
            // SAFETY: `args` is the argument struct of this function, with its size set; the caller of the
            // enclosing function guarantees the handles.
            let error = unsafe { function($args) };
            api.check(error)
        })
    }};
}

use {call, function};

impl Api {
    /// Wraps the table that a plugin's entry point returned.
    ///
    /// # Safety
    /// `table` must point to a `PJRT_Api` that stays valid as long as any copy of the value is used.
    pub unsafe fn new(table: NonNull<sys::Api>) -> Self {
        Self(table)
    }

    /// Major and minor version of the plugin's API.
    pub fn version(self) -> (c_int, c_int) {
        // SAFETY: the version is in the part of the table that every plugin has.
        let version = unsafe { &(*self.as_ptr()).version };
        (version.major, version.minor)
    }

    /// Initializes the plugin. Call once, first.
    pub fn plugin_initialize(self) -> Result<()> {
        call!(self, plugin_initialize, &mut sys::PluginInitializeArgs::default())
    }

    /// The plugin's attributes.
    pub fn plugin_attributes(self) -> Result<Vec<NamedValue>> {
        let mut args = sys::PluginAttributesArgs::default();
        call!(self, plugin_attributes, &mut args)?;
        // SAFETY: the plugin returned this list, which lives as long as the process.
        Ok(unsafe { NamedValue::copy_list(args.attributes, args.num_attributes) })
    }

    /// Waits for an event and destroys it.
    ///
    /// # Safety
    /// `event` must be a live event of this plugin.
    pub unsafe fn event_finish(self, event: NonNull<sys::Event>) -> Result<()> {
        let handle = event.as_ptr();
        let awaited = call!(self, event_await, &mut sys::EventAwaitArgs { handle, ..Default::default() });
        let destroyed =
            call!(self, event_destroy, &mut sys::EventDestroyArgs { handle, ..Default::default() });
        awaited.and(destroyed)
    }

    fn as_ptr(self) -> *const sys::Api {
        self.0.as_ptr()
    }

    fn size(self) -> usize {
        // SAFETY: the size is the first field of every version.
        unsafe { (*self.as_ptr()).struct_size }
    }

    fn missing(self, function: &'static str) -> Error {
        let (major, minor) = self.version();
        Error::Missing { function, major, minor }
    }

    /// Copies and destroys the error that a call returned.
    fn check(self, error: *mut sys::Error) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        let message = function!(self, error_message).map(|function| {
            let mut args = sys::ErrorMessageArgs { handle: error, ..Default::default() };
            // SAFETY: the error is alive until destroyed below, and so is its text.
            unsafe {
                function(&mut args);
                copy_text(args.text, args.text_size)
            }
        });
        let code = function!(self, error_get_code).map(|function| {
            let mut args = sys::ErrorGetCodeArgs { error, ..Default::default() };
            // SAFETY: as above. The function itself cannot fail for a live error.
            unsafe { function(&mut args) };
            ErrorCode::from_raw(args.code)
        });
        if let Ok(destroy) = function!(self, error_destroy) {
            let mut args = sys::ErrorDestroyArgs { handle: error, ..Default::default() };
            // SAFETY: the plugin returned ownership of the error, and only this destroys it.
            unsafe { destroy(&mut args) };
        }
        Err(Error::Plugin { code: code?, message: message? })
    }
}

/// Copies a string owned by the plugin.
///
/// # Safety
/// `text` must point to `size` readable bytes, or be null.
unsafe fn copy_text(text: *const c_char, size: usize) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(unsafe { slice(text.cast::<u8>(), size) }).into_owned()
}

/// A list owned by the plugin; null is the empty list.
///
/// # Safety
/// `data` must point to `len` initialized elements that live for `'a`, or be null.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// An object that a successful call must have returned.
fn object<T>(raw: *mut T, function: &'static str) -> Result<NonNull<T>> {
    NonNull::new(raw).ok_or_else(|| Error::Plugin {
        code: ErrorCode::Internal,
        message: format!("the PJRT plugin returned nothing from {function}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_of_the_interface() {
        assert_eq!(ErrorCode::from_raw(3), ErrorCode::InvalidArgument);
        assert_eq!(ErrorCode::from_raw(8), ErrorCode::ResourceExhausted);
        assert_eq!(ErrorCode::from_raw(99), ErrorCode::Unknown);
    }
}
