//! The text of a kernel, to be changed in one place.

/// A kernel's lines.
#[derive(Clone)]
pub struct Text<'a>(pub Vec<&'a str>);

impl<'a> Text<'a> {
    pub fn new(ptx: &'a str) -> Self {
        Self(ptx.lines().map(str::trim).collect())
    }

    /// With other text in place of a line.
    pub fn with(&self, at: usize, text: &str) -> String {
        let mut lines = self.0.clone();
        lines[at] = text;
        lines.join("\n")
    }
}
