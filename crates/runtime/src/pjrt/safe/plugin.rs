//! Plugins: shared libraries that export `GetPjrtApi`.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;

use libloading::Library;

use crate::pjrt::result::{Api, Error, NamedValue};
use crate::pjrt::sys;

/// A file that cannot be used as a plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The dynamic loader cannot load it.
    #[error("cannot load {path}: {reason}")]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// It is not a PJRT plugin.
    #[error("{0} is not a PJRT plugin: it does not export GetPjrtApi")]
    NotAPlugin(PathBuf),
    /// Its API version is incompatible.
    #[error(
        "{path} implements PJRT API {major}.{minor}, but {expected_major}.{expected_minor} or newer is \
         needed: install a newer version of it",
        expected_major = sys::API_MAJOR,
        expected_minor = sys::API_MINOR_MIN
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        major: i32,
        /// Its version.
        minor: i32,
    },
    /// It fails to initialize.
    #[error("{path} failed to initialize: {error}")]
    Initialize {
        /// The file.
        path: PathBuf,
        /// The plugin's message.
        error: Error,
    },
}

/// A loaded plugin. Clones share it.
#[derive(Clone, Debug)]
pub struct Plugin {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    api: Api,
    /// Plugins start threads that outlive every object, so the library stays until the process ends.
    _library: ManuallyDrop<Library>,
}

impl Plugin {
    /// Loads and initializes the plugin in `path`. The file is trusted: its code runs in this process.
    pub fn load(path: &Path) -> Result<Self, PluginError> {
        let load_error = |error: libloading::Error| {
            // The loader's message starts with the path, which our error names already.
            let (reason, prefix) = (error.to_string(), format!("{}: ", path.display()));
            let reason = reason.strip_prefix(&prefix).unwrap_or(&reason).to_owned();
            PluginError::Load { path: path.to_owned(), reason }
        };
        // The loader searches for a bare name in the system's folders only.
        let file = if path.is_file() { std::path::absolute(path) } else { Ok(path.to_owned()) };
        let file = file.unwrap_or_else(|_| path.to_owned());
        // SAFETY: loading runs the library's initializers, which the caller trusts.
        let library = ManuallyDrop::new(unsafe { Library::new(file) }.map_err(load_error)?);
        // SAFETY: the symbol has this type in every plugin, by its header.
        let entry = unsafe { library.get::<sys::GetPjrtApi>(sys::ENTRY_POINT) };
        let entry = entry.map_err(|_| PluginError::NotAPlugin(path.to_owned()))?;
        // SAFETY: the function takes nothing and may be called at any time.
        let table = NonNull::new(unsafe { entry() }.cast_mut());
        let table = table.ok_or_else(|| PluginError::NotAPlugin(path.to_owned()))?;
        // SAFETY: the table is static data of the library, which is never unloaded.
        let api = unsafe { Api::new(table) };
        let (major, minor) = api.version();
        let path = path.to_owned();
        if major != sys::API_MAJOR || minor < sys::API_MINOR_MIN {
            return Err(PluginError::Version { path, major, minor });
        }
        if let Err(error) = api.plugin_initialize() {
            return Err(PluginError::Initialize { path, error });
        }
        let inner = Rc::new(Inner { path, api, _library: library });
        Ok(Self { inner })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Major and minor version of the API.
    pub fn api_version(&self) -> (i32, i32) {
        self.api().version()
    }

    /// The plugin's attributes.
    pub fn attributes(&self) -> Result<Vec<NamedValue>, Error> {
        self.api().plugin_attributes()
    }

    pub(super) fn api(&self) -> Api {
        self.inner.api
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = Plugin::load(Path::new("/no/such/plugin.so")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load /no/such/plugin.so: cannot open shared object file: No such file or directory"
        );
    }

    #[test]
    fn another_library_is_no_plugin() {
        let error = Plugin::load(Path::new("libc.so.6")).unwrap_err();
        assert_eq!(error.to_string(), "libc.so.6 is not a PJRT plugin: it does not export GetPjrtApi");
    }
}
