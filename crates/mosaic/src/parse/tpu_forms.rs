//! Custom forms of operations that few kernels use: logs, masks, indexed accesses, sorts, scans, switches.

use super::{Parser, cursor::Result, ops::Unnamed};
use crate::attribute::Attr;

/// Forms that a pattern describes.
pub(super) const PATTERNS: &[(&str, &str)] = &[
    ("tpu.trace_value", "% , =label {} : T"),
    ("tpu.iteration_bound", "#dim {} : R"),
    ("tpu.unpack_subelements", "% , #index {} : T -> R"),
    ("tpu.pack_subelements", "%* {} : T* -> R"),
    ("tpu.pack_elementwise", "%* {} : T* -> R"),
    ("tpu.unpack_elementwise", "% , #index {} : T -> R"),
    ("tpu.gather", "% [ =indices ] in #dimension {} : T -> R"),
    ("tpu.sublane_shuffle", "% , % , =pattern {} : T , T -> R"),
    ("tpu.create_mask", "[ %* ] [ %* ] {} : R"),
    ("tpu.create_subelement_mask", "#from , #to {} : R"),
    ("tpu.broadcast_in_sublanes", "% , #lane {} : T -> R"),
    ("tpu.stochastic_convert", "% , % {} : T , T -> R"),
    ("tpu.stochastic_convert_elementwise", "% , % {} : T , T -> R"),
    ("tpu.matmul_push_rhs", "% {} : T"),
    ("tpu.matmul_acc_lhs", "#acc , % {} : T"),
    ("tpu.matmul_pop", "#acc {} : R"),
];

impl Parser<'_> {
    /// Parses `"tag" {formatted = true} : [%values] : types`.
    pub(super) fn log(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let tag = self.attribute()?;
        op.attributes = op.attributes.with("tag", tag);
        op.attributes = self.flags_and_braces(op.attributes)?;
        if self.cursor.eat(":") {
            op.operands = self.list("[", "]", Self::operand)?;
            self.cursor.require(":")?;
            self.operand_types(&op)?;
        }
        Ok(op)
    }

    /// Parses `"tag" {shape = ...} : %memref : type`.
    pub(super) fn log_buffer(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let tag = self.attribute()?;
        op.attributes = op.attributes.with("tag", tag);
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        op.operands.push(self.operand()?);
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        Ok(op)
    }

    /// Parses `masked %mask`, if it is there.
    fn mask(&mut self, op: &mut Unnamed) -> Result<bool> {
        let masked = self.cursor.eat_word("masked");
        if masked {
            op.operands.push(self.operand()?);
        }
        Ok(masked)
    }

    /// Parses `#kind, %input masked %mask : type, type -> type`.
    pub(super) fn scan(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let kind = match self.cursor.looking_at("<") {
            true => Attr::Other(format!("#tpu.reduction_kind{}", self.cursor.balanced()?)),
            false => self.attribute()?,
        };
        op.attributes = op.attributes.with("kind", kind);
        self.cursor.require(",")?;
        op.operands.push(self.operand()?);
        self.mask(&mut op)?;
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        if self.cursor.eat(",") && !self.cursor.looking_at("->") {
            self.operand_type(&op)?;
        }
        self.cursor.require("->")?;
        op.results.push(self.ty()?);
        Ok(op)
    }

    /// Parses `%keys, %values masked %mask : (types) -> (types)`.
    pub(super) fn sort(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands = self.operands()?;
        self.mask(&mut op)?;
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.bracketed_operand_types(&op)?;
        self.cursor.require("->")?;
        op.results = self.result_types()?;
        Ok(op)
    }

    /// Parses `%memref[%indices] masked %mask : type[types], type, type`; a store has the vector after the
    /// indices, and as operand 0.
    pub(super) fn indexed(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let stores = op.name == "tpu.vector_store_idx";
        let memref = self.operand()?;
        let indices = self.list("[", "]", Self::operand)?;
        if stores {
            self.cursor.require(",")?;
            op.operands.push(self.operand()?);
        }
        op.operands.push(memref);
        op.operands.extend(&indices);
        let masked = self.mask(&mut op)?;
        let mut segments = vec![1; usize::from(stores)];
        segments.extend([1, indices.len() as i32, masked.into()]);
        op.attributes = op.attributes.with("operandSegmentSizes", Attr::I32s(segments));
        op.attributes = self.flags_and_braces(op.attributes)?;
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        self.list("[", "]", |p| p.operand_type(&op).map(drop))?;
        self.cursor.require(",")?;
        let vector = self.ty()?;
        if self.cursor.eat(",") && self.cursor.peek_word() == Some("vector") {
            self.operand_type(&op)?;
        }
        if !stores {
            op.results.push(vector);
        }
        Ok(op)
    }

    /// Parses `%index -> types case 1 {...} default {...}`; the default is the first region.
    pub(super) fn index_switch(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        op.attributes = self.optional_dict()?;
        if self.cursor.eat("->") {
            op.results = self.result_types()?;
        }
        let (mut cases, mut regions) = (Vec::new(), Vec::new());
        while self.cursor.eat_word("case") {
            cases.push(self.cursor.signed()?);
            regions.push(self.yielding_region(|_| Ok(Vec::new()))?);
        }
        if !self.cursor.eat_word("default") {
            return Err(self.cursor.expected("'case' or 'default'"));
        }
        op.regions.push(self.yielding_region(|_| Ok(Vec::new()))?);
        op.regions.append(&mut regions);
        op.attributes = op.attributes.with("cases", Attr::I64s(cases));
        Ok(op)
    }
}
