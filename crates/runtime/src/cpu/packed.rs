//! The packed weight: panels of 32 rows, each with a header, its scales, and its codes in the order in which
//! the microkernels read them ([`super::pack`]).
//!
//! | bytes of a panel | hold |
//! |---|---|
//! | 64 | the header: magic, version, rows of the panel, K, quantization block, largest scale of the weight |
//! | 4 per k-block, padded to 64 | the f32 scales of the panel's block row |
//! | 64 per pair of k | the codes |
//!
//! The layout depends on N, K and the quantization block only. A panel says all about itself, so that panels
//! can be split among devices and joined again. Numbers have the machine's byte order.

#[cfg(test)]
mod tests;

use octile_core::{
    E4m3, Problem, QuantBlock, QuantizeError, QuantizedWeight, WeightView, plan::cpu::PANEL,
    problem::ProblemError, quantize::largest_scale,
};

use super::{
    executor::{Chunks, Team},
    memory::{Memory, bytes, bytes_mut},
    pack::{GROUP, pack, place},
};

/// Bytes of a panel's header.
const HEADER: usize = 64;
const MAGIC: [u8; 8] = *b"octile-p";
const VERSION: u32 = 1;

/// Bytes that are not the packed weight that they should be, or a weight that cannot be packed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// Another number of bytes.
    #[error("a packed weight of {rows} x {cols} has {needed} bytes, but {held} were given")]
    Length {
        /// N.
        rows: usize,
        /// K.
        cols: usize,
        /// Bytes that the layout has.
        needed: usize,
        /// Bytes given.
        held: usize,
    },
    /// Scales could not be read in place.
    #[error("the packed weight starts at {address:#x}, but must be aligned to 4 bytes: copy it")]
    Misaligned {
        /// Address of the first byte.
        address: usize,
    },
    /// No header where one should be.
    #[error("panel {panel} of the packed weight has no header of this version: pack the weight again")]
    Header {
        /// The panel.
        panel: usize,
    },
    /// The panel belongs to another weight.
    #[error(
        "panel {panel} of the packed weight has {rows} rows, K = {cols} and blocks of {block}, but \
         {expected} was expected: pass the packed weight of this multiplication"
    )]
    Panel {
        /// The panel.
        panel: usize,
        /// Its rows.
        rows: u32,
        /// Its K.
        cols: u64,
        /// Its quantization block.
        block: u32,
        /// The same of the multiplication.
        expected: String,
    },
    /// A panel holds NaN.
    #[error("panel {panel} of the packed weight holds NaN: only finite numbers can be multiplied")]
    Nan {
        /// The panel.
        panel: usize,
    },
    /// Rows of one block have different scales.
    #[error(
        "panel {panel} has other scales than the panels before it in its block: it was split from a weight \
         inside a block, so join it with them before unpacking"
    )]
    SplitBlock {
        /// The panel.
        panel: usize,
    },
    /// The shape is empty or too large.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// Codes or scales that cannot be packed.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
}

/// The layout of a packed weight.
///
/// ```
/// use octile_runtime::cpu::{PackedLayout, QuantBlock};
///
/// let layout = PackedLayout::new([200, 300], QuantBlock::B128)?;
/// assert_eq!((layout.panels(), layout.panel_bytes()), (7, 64 + 64 + 150 * 64));
/// # Ok::<(), octile_runtime::cpu::PackedError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedLayout {
    rows: usize,
    cols: usize,
    quant_block: QuantBlock,
}

impl PackedLayout {
    /// The layout of a weight of `[n, k]`.
    pub fn new([rows, cols]: [usize; 2], quant_block: QuantBlock) -> Result<Self, PackedError> {
        // With the last panel padded; the margin per element is more than headers and scales need.
        Problem::new(1, rows.checked_next_multiple_of(PANEL).unwrap_or(rows), cols, quant_block)?;
        Ok(Self { rows, cols, quant_block })
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL)
    }

    /// Bytes of one panel, a multiple of 64.
    pub fn panel_bytes(&self) -> usize {
        self.codes_at() + self.cols.div_ceil(2) * GROUP
    }

    /// Bytes of all panels.
    pub fn bytes(&self) -> usize {
        self.panels() * self.panel_bytes()
    }

    /// Offset of the codes in a panel.
    fn codes_at(&self) -> usize {
        HEADER + (self.blocks() * size_of::<f32>()).next_multiple_of(HEADER)
    }

    /// Quantization blocks along K.
    fn blocks(&self) -> usize {
        self.quant_block.count(self.cols)
    }

    /// The header of a panel.
    fn header(&self, panel: usize, largest_scale: f32) -> Header {
        Header {
            rows: PANEL.min(self.rows - panel * PANEL) as u32,
            cols: self.cols as u64,
            block: self.quant_block.size() as u32,
            largest_scale,
        }
    }

    /// Writes the panels of a weight from `first` on.
    fn write(&self, weight: WeightView<'_>, largest_scale: f32, first: usize, out: &mut [u8]) {
        for (panel, out) in (first..).zip(out.chunks_exact_mut(self.panel_bytes())) {
            let (head, codes) = out.split_at_mut(self.codes_at());
            let (header, scales) = head.split_at_mut(HEADER);
            header.copy_from_slice(&self.header(panel, largest_scale).to_bytes());
            scales.fill(0);
            let block_row = panel * PANEL / self.quant_block.size();
            let of_panel = &weight.scales()[block_row * self.blocks()..][..self.blocks()];
            for (bytes, scale) in scales.as_chunks_mut().0.iter_mut().zip(of_panel) {
                *bytes = scale.to_ne_bytes();
            }
            pack(weight, panel, 0..self.cols, codes);
        }
    }
}

/// What a panel says about itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Header {
    rows: u32,
    cols: u64,
    block: u32,
    largest_scale: f32,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER] {
        let Self { rows, cols, block, largest_scale } = self;
        let mut bytes = [0; HEADER];
        let fields: [&[u8]; 6] = [
            &MAGIC,
            &VERSION.to_ne_bytes(),
            &rows.to_ne_bytes(),
            &cols.to_ne_bytes(),
            &block.to_ne_bytes(),
            &largest_scale.to_ne_bytes(),
        ];
        for (byte, field) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *byte = *field;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (magic, bytes) = bytes.split_first_chunk()?;
        let (version, bytes) = bytes.split_first_chunk()?;
        let (rows, bytes) = bytes.split_first_chunk()?;
        let (cols, bytes) = bytes.split_first_chunk()?;
        let (block, bytes) = bytes.split_first_chunk()?;
        let (largest_scale, _) = bytes.split_first_chunk()?;
        (*magic == MAGIC && u32::from_ne_bytes(*version) == VERSION).then(|| Self {
            rows: u32::from_ne_bytes(*rows),
            cols: u64::from_ne_bytes(*cols),
            block: u32::from_ne_bytes(*block),
            largest_scale: f32::from_ne_bytes(*largest_scale),
        })
    }
}

/// Packs a weight into bytes of [`PackedLayout::bytes`]. Rejects codes and scales that are not finite.
pub fn pack_into(weight: WeightView<'_>, out: &mut [u8]) -> Result<(), PackedError> {
    let layout = PackedLayout::new([weight.rows(), weight.cols()], weight.quant_block())?;
    layout.check_length(out.len())?;
    let largest_scale = weight.check_scales()?;
    weight.check_codes()?;
    layout.write(weight, largest_scale, 0, out);
    Ok(())
}

impl PackedLayout {
    fn check_length(&self, held: usize) -> Result<(), PackedError> {
        let Self { rows, cols, .. } = *self;
        let needed = self.bytes();
        if held == needed { Ok(()) } else { Err(PackedError::Length { rows, cols, needed, held }) }
    }
}

/// A packed weight that stays where the caller has it, for
/// [`Strategy::Strip`](octile_core::Strategy::Strip).
#[derive(Debug, Clone, Copy)]
pub struct PackedView<'a> {
    panels: &'a [u8],
    layout: PackedLayout,
    largest_scale: f32,
}

impl<'a> PackedView<'a> {
    /// Checks length, alignment, and the headers of the first and the last panel. What is between them is not
    /// looked at: other bytes there give wrong results.
    pub fn new(panels: &'a [u8], shape: [usize; 2], quant_block: QuantBlock) -> Result<Self, PackedError> {
        let layout = PackedLayout::new(shape, quant_block)?;
        layout.check_length(panels.len())?;
        if !panels.as_ptr().cast::<f32>().is_aligned() {
            return Err(PackedError::Misaligned { address: panels.as_ptr().addr() });
        }
        let mut view = Self { panels, layout, largest_scale: 0.0 };
        view.largest_scale = view.check_header(0)?.max(view.check_header(layout.panels() - 1)?);
        Ok(view)
    }

    /// Checks all panels: their headers, and that codes and scales are finite.
    pub fn check(&self) -> Result<(), PackedError> {
        for panel in 0..self.layout.panels() {
            let said = self.check_header(panel)?;
            let largest = largest_scale("weight", self.scales(panel), self.layout.blocks())?;
            if largest > said {
                return Err(PackedError::Header { panel });
            }
            let codes = self.codes(panel, 0);
            if codes.iter().fold(false, |any, code| any | E4m3::from_bits(*code).is_nan()) {
                return Err(PackedError::Nan { panel });
            }
        }
        Ok(())
    }

    /// Checks the header of a panel, and returns its largest scale.
    fn check_header(&self, panel: usize) -> Result<f32, PackedError> {
        let found = Header::from_bytes(self.panel(panel)).ok_or(PackedError::Header { panel })?;
        let expected = self.layout.header(panel, found.largest_scale);
        let Header { rows, cols, block, largest_scale } = found;
        if (rows, cols, block) != (expected.rows, expected.cols, expected.block) {
            let Header { rows: n, cols: k, block: qb, .. } = expected;
            let expected = format!("{n} rows, K = {k} and blocks of {qb}");
            return Err(PackedError::Panel { panel, rows, cols, block, expected });
        }
        Ok(largest_scale)
    }

    /// Rows of the weight: the N of the multiplication.
    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Columns of the weight: the K of the multiplication.
    pub fn cols(&self) -> usize {
        self.layout.cols
    }

    /// Side of a quantization block.
    pub fn quant_block(&self) -> QuantBlock {
        self.layout.quant_block
    }

    /// Returns the codes, row-major, and the scales, row-major by block. Panels split from a weight inside a
    /// block have no such scales, and are refused.
    pub fn unpack(&self) -> Result<(Vec<u8>, Vec<f32>), PackedError> {
        let PackedLayout { rows, cols, quant_block } = self.layout;
        let mut scales = Vec::with_capacity(quant_block.count(rows) * self.layout.blocks());
        let block_panels = quant_block.size() / PANEL;
        for panel in 0..self.layout.panels() {
            let first = panel / block_panels * block_panels;
            if panel == first {
                scales.extend_from_slice(self.scales(panel));
            } else if self.scales(panel) != self.scales(first) {
                return Err(PackedError::SplitBlock { panel });
            }
        }
        let mut codes = Vec::with_capacity(rows * cols);
        for row in 0..rows {
            let groups = self.codes(row / PANEL, 0).chunks_exact(GROUP);
            let pairs = groups.flat_map(|group| &group[place(row % PANEL)..][..2]);
            codes.extend(pairs.take(cols).copied());
        }
        Ok((codes, scales))
    }

    /// The largest scale, as the header says.
    pub(super) fn largest_scale(&self) -> f32 {
        self.largest_scale
    }

    /// The codes of a panel from column `start` (even) of K on.
    pub(super) fn codes(&self, panel: usize, start: usize) -> &'a [u8] {
        &self.panel(panel)[self.layout.codes_at()..][start / 2 * GROUP..]
    }

    /// The scales of a panel, one per k-block.
    pub(super) fn scales(&self, panel: usize) -> &'a [f32] {
        let scales = &self.panel(panel)[HEADER..][..self.layout.blocks() * size_of::<f32>()];
        // SAFETY: any bytes are valid as `f32`.
        let (head, scales, _) = unsafe { scales.align_to() };
        assert!(head.is_empty(), "alignment was checked");
        scales
    }

    /// The scales of all panels.
    pub(super) fn all_scales(&self) -> Vec<f32> {
        (0..self.layout.panels()).flat_map(|panel| self.scales(panel)).copied().collect()
    }

    fn panel(&self, panel: usize) -> &'a [u8] {
        let panel_bytes = self.layout.panel_bytes();
        &self.panels[panel * panel_bytes..][..panel_bytes]
    }
}

/// A weight packed for [`Strategy::Strip`](octile_core::Strategy::Strip). Pack once, multiply often.
///
/// ```
/// use octile_runtime::cpu::{Mat, PackedWeight, QuantBlock, QuantizedWeight};
///
/// let weight = vec![1.0; 200 * 300];
/// let weight = QuantizedWeight::quantize(Mat::new(&weight, 200, 300)?, QuantBlock::B128)?;
/// let packed = PackedWeight::new(&weight);
/// assert_eq!(packed.view().unpack()?, (weight.codes().to_vec(), weight.scales().to_vec()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackedWeight {
    panels: Memory,
    layout: PackedLayout,
    largest_scale: f32,
}

impl PackedWeight {
    /// Packs a weight of `n x k`.
    ///
    /// # Panics
    /// If the padded weight exceeds the address space.
    pub fn new(weight: &QuantizedWeight) -> Self {
        Self::made_by(Team::Alone, weight, 1)
    }

    /// Packs a weight that the caller has, on one thread. Rejects codes and scales that are not finite.
    pub fn from_view(weight: WeightView<'_>) -> Result<Self, PackedError> {
        let layout = PackedLayout::new([weight.rows(), weight.cols()], weight.quant_block())?;
        let largest_scale = weight.check_scales()?;
        weight.check_codes()?;
        Ok(Self::write(Team::Alone, weight, layout, largest_scale, 1))
    }

    /// The same as [`PackedWeight::new`], in parts that several threads share.
    pub(super) fn made_by(team: Team<'_>, weight: &QuantizedWeight, parts: usize) -> Self {
        let weight = WeightView::from(weight);
        let layout = PackedLayout::new([weight.rows(), weight.cols()], weight.quant_block());
        let layout = layout.expect("a weight in memory is addressable");
        let largest_scale = weight.check_scales().expect("checked when the weight was made");
        Self::write(team, weight, layout, largest_scale, parts)
    }

    fn write(
        team: Team<'_>,
        weight: WeightView<'_>,
        layout: PackedLayout,
        largest_scale: f32,
        parts: usize,
    ) -> Self {
        // Panels are whole lines.
        let part_panels = layout.panels().div_ceil(parts);
        let part_lines = part_panels * layout.panel_bytes() / HEADER;
        let mut panels = Memory::zeroed_by(team, layout.bytes() / HEADER, part_lines);
        let chunks = Chunks::new(&mut panels, part_lines);
        team.for_each(chunks.count(), |part| {
            // SAFETY: each index comes once.
            let lines = unsafe { chunks.get(part) };
            layout.write(weight, largest_scale, part * part_panels, bytes_mut(lines));
        });
        Self { panels, layout, largest_scale }
    }

    /// The weight, borrowed.
    pub fn view(&self) -> PackedView<'_> {
        PackedView { panels: self.as_bytes(), layout: self.layout, largest_scale: self.largest_scale }
    }

    /// The panels.
    pub fn as_bytes(&self) -> &[u8] {
        bytes(&self.panels)
    }
}
