//! The text of a kernel, for mutation.

/// A kernel's lines.
#[derive(Clone)]
pub(crate) struct Text<'a>(pub Vec<&'a str>);

impl<'a> Text<'a> {
    pub(crate) fn new(ptx: &'a str) -> Self {
        Self(ptx.lines().map(str::trim).collect())
    }

    /// The kernel with one line replaced.
    pub(crate) fn with(&self, at: usize, text: &str) -> String {
        let mut lines = self.0.clone();
        lines[at] = text;
        lines.join("\n")
    }
}
