//! Float arithmetic and conversions.

use octile_core::FloatKind;

use super::{B16, B32, F32, Pred, Ptx, vector};
use crate::ir::Operand;

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $opcode:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: F32, b: F32) -> F32 {
            let out = self.f32();
            self.emit($opcode, [out.into(), a.into(), b.into()]);
            out
        })*
    };
}

impl Ptx {
    binary! {
        /// `a * b`
        mul_f32 = "mul.rn.f32";
        /// `a + b`
        add_f32 = "add.rn.f32";
        /// `max(a, b)`
        max_f32 = "max.f32";
    }

    /// A float register that starts at `value`.
    pub fn float(&mut self, value: f32) -> F32 {
        let out = self.f32();
        self.set_float(out, value);
        out
    }

    /// Assigns a constant.
    pub fn set_float(&mut self, variable: F32, value: f32) {
        self.emit("mov.f32", [variable.into(), Operand::word(format!("0f{:08X}", value.to_bits()))]);
    }

    /// `variable = value`
    pub fn copy_float(&mut self, variable: F32, value: F32) {
        self.emit("mov.f32", [variable.into(), value.into()]);
    }

    /// `variable += a * b`, rounded once.
    pub fn fma_into(&mut self, variable: F32, a: F32, b: F32) {
        self.emit("fma.rn.f32", [variable.into(), a.into(), b.into(), variable.into()]);
    }

    /// `variable = a * b`
    pub fn mul_into(&mut self, variable: F32, a: F32, b: F32) {
        self.emit("mul.rn.f32", [variable.into(), a.into(), b.into()]);
    }

    /// `|value|`
    pub fn abs_f32(&mut self, value: F32) -> F32 {
        let out = self.f32();
        self.emit("abs.f32", [out.into(), value.into()]);
        out
    }

    /// `a == b`
    pub fn eq_f32(&mut self, a: F32, b: F32) -> Pred {
        let out = self.pred();
        self.emit("setp.eq.f32", [out.into(), a.into(), b.into()]);
        out
    }

    /// `predicate ? yes : no`
    pub fn select_f32(&mut self, yes: F32, no: F32, predicate: Pred) -> F32 {
        let out = self.f32();
        self.emit("selp.f32", [out.into(), yes.into(), no.into(), predicate.into()]);
        out
    }

    /// Rounds two floats to 16 bits each, `low` in the low half.
    pub fn pack(&mut self, kind: FloatKind, low: F32, high: F32) -> B32 {
        let out = self.b32();
        let opcode = match kind {
            FloatKind::Bf16 => "cvt.rn.bf16x2.f32",
            FloatKind::F16 => "cvt.rn.f16x2.f32",
            FloatKind::F32 => unreachable!("f32 values are not packed"),
        };
        self.emit(opcode, [out.into(), high.into(), low.into()]);
        out
    }

    /// The two halves of a register.
    pub fn halves(&mut self, packed: B32) -> [B16; 2] {
        let out = [self.b16(), self.b16()];
        self.emit("mov.b32", [vector(&out), packed.into()]);
        out
    }

    /// Converts a 16-bit float to f32, exactly.
    pub fn widen(&mut self, kind: FloatKind, value: B16) -> F32 {
        let out = self.f32();
        match kind {
            FloatKind::Bf16 => {
                let wide = self.b32();
                self.emit("mov.b32", [wide.into(), Operand::Vector(vec![0.into(), value.into()])]);
                self.emit("mov.b32", [out.into(), wide.into()]);
            }
            FloatKind::F16 => self.emit("cvt.f32.f16", [out.into(), value.into()]),
            FloatKind::F32 => unreachable!("f32 values are wide"),
        }
        out
    }

    /// Rounds two floats to f8e4m3fn, `low` in the low byte.
    pub fn pack_e4m3(&mut self, low: F32, high: F32) -> B16 {
        let out = self.b16();
        self.emit("cvt.rn.satfinite.e4m3x2.f32", [out.into(), high.into(), low.into()]);
        out
    }

    /// A 32-bit register from two halves.
    pub fn join_halves(&mut self, low: B16, high: B16) -> B32 {
        let out = self.b32();
        self.emit("mov.b32", [out.into(), vector(&[low, high])]);
        out
    }
}
