//! Parameters, loads, stores and atomics.

use super::{B16, B32, B64, F32, Global, Pred, Ptx, Shared, Source, address, vector};
use crate::ir::Operand;

impl Ptx {
    /// A 32-bit parameter.
    pub fn number(&mut self, name: &str) -> B32 {
        let out = self.b32();
        self.emit("ld.param.u32", [out.into(), address(Operand::word(name.to_owned()))]);
        out
    }

    /// A device pointer parameter.
    pub fn pointer(&mut self, name: &str) -> B64 {
        let (generic, out) = (self.b64(), self.b64());
        self.emit("ld.param.u64", [generic.into(), address(Operand::word(name.to_owned()))]);
        self.emit("cvta.to.global.u64", [out.into(), generic.into()]);
        out
    }

    /// The address of a tensor map parameter.
    pub fn tensor_map(&mut self, name: &str) -> B64 {
        let (parameter, out) = (self.b64(), self.b64());
        self.emit("mov.b64", [parameter.into(), Operand::word(name.to_owned())]);
        self.emit("cvta.param.u64", [out.into(), parameter.into()]);
        out
    }

    /// The start of the CTA's dynamic shared memory.
    pub fn shared_memory(&mut self) -> B32 {
        let out = self.b32();
        self.emit("mov.u32", [out.into(), Operand::word("shared_memory")]);
        out
    }

    /// Loads a float through the read-only cache.
    pub fn load_global_f32(&mut self, at: Global) -> F32 {
        let out = self.f32();
        self.emit("ld.global.nc.f32", [out.into(), at.into()]);
        out
    }

    /// Loads 16 bytes through the read-only cache into `out` where the predicate holds.
    pub fn load_global_16_into(&mut self, out: [B32; 4], at: Global, predicate: Pred) {
        self.emit_if(predicate, "ld.global.nc.v4.b32", [vector(&out), at.into()]);
    }

    /// Loads 16 bits where the predicate holds, else 0.
    pub fn load_global_b16_if(&mut self, at: Global, predicate: Pred) -> B16 {
        let out = self.b16();
        self.emit("mov.b16", [out.into(), 0.into()]);
        self.emit_if(predicate, "ld.global.nc.b16", [out.into(), at.into()]);
        out
    }

    /// Loads a float where the predicate holds, else 0.
    pub fn load_global_f32_if(&mut self, at: Global, predicate: Pred) -> F32 {
        let out = self.float(0.0);
        self.emit_if(predicate, "ld.global.nc.f32", [out.into(), at.into()]);
        out
    }

    /// Stores 16 bits where the predicate holds.
    pub fn store_global_b16_if(&mut self, at: Global, value: B16, predicate: Pred) {
        self.emit_if(predicate, "st.global.b16", [at.into(), value.into()]);
    }

    /// Stores 32 bits where the predicate holds.
    pub fn store_global_b32_if(&mut self, at: Global, value: B32, predicate: Pred) {
        self.emit_if(predicate, "st.global.b32", [at.into(), value.into()]);
    }

    /// Stores a float where the predicate holds.
    pub fn store_global_f32_if(&mut self, at: Global, value: F32, predicate: Pred) {
        self.emit_if(predicate, "st.global.f32", [at.into(), value.into()]);
    }

    /// Stores 8 bytes where the predicate holds.
    pub fn store_global_8_if(&mut self, at: Global, values: [B32; 2], predicate: Pred) {
        self.emit_if(predicate, "st.global.v2.b32", [at.into(), vector(&values)]);
    }

    /// Stores 16 bytes where the predicate holds.
    pub fn store_global_16_if(&mut self, at: Global, values: [B32; 4], predicate: Pred) {
        self.emit_if(predicate, "st.global.v4.b32", [at.into(), vector(&values)]);
    }

    /// Stores two floats where the predicate holds.
    pub fn store_global_f32x2_if(&mut self, at: Global, values: [F32; 2], predicate: Pred) {
        self.emit_if(predicate, "st.global.v2.f32", [at.into(), vector(&values)]);
    }

    /// Loads 16 bits.
    pub fn load_shared_b16(&mut self, at: Shared) -> B16 {
        let out = self.b16();
        self.emit("ld.shared.b16", [out.into(), at.into()]);
        out
    }

    /// Loads 8 bytes.
    pub fn load_shared_8(&mut self, at: Shared) -> [B32; 2] {
        let out = [self.b32(), self.b32()];
        self.emit("ld.shared.v2.b32", [vector(&out), at.into()]);
        out
    }

    /// Stores 8 bytes.
    pub fn store_shared_8(&mut self, at: Shared, values: [B32; 2]) {
        self.emit("st.shared.v2.b32", [at.into(), vector(&values)]);
    }

    /// Loads a float.
    pub fn load_shared_f32(&mut self, at: Shared) -> F32 {
        let out = self.f32();
        self.emit("ld.shared.f32", [out.into(), at.into()]);
        out
    }

    /// Stores a float.
    pub fn store_shared_f32(&mut self, at: Shared, value: F32) {
        self.emit("st.shared.f32", [at.into(), value.into()]);
    }

    /// Loads 16 bytes.
    pub fn load_shared_16(&mut self, at: Shared) -> [B32; 4] {
        let out = [(); 4].map(|()| self.b32());
        self.emit("ld.shared.v4.b32", [vector(&out), at.into()]);
        out
    }

    /// Stores 16 bytes.
    pub fn store_shared_16(&mut self, at: Shared, values: [B32; 4]) {
        self.emit("st.shared.v4.b32", [at.into(), vector(&values)]);
    }

    /// The address that `at` has in CTA `rank` of the cluster.
    pub fn of_block(&mut self, at: B32, rank: impl Into<Source>) -> B32 {
        let out = self.b32();
        self.emit("mapa.shared::cluster.u32", [out.into(), at.into(), rank.into().into()]);
        out
    }

    /// Loads two or four adjacent floats.
    pub fn load_shared_floats<const N: usize>(&mut self, at: Shared) -> [F32; N] {
        let out = [(); N].map(|()| self.f32());
        self.emit(format!("ld.shared.v{N}.f32"), [vector(&out), at.into()]);
        out
    }

    /// Stores two or four adjacent floats in distributed shared memory.
    pub fn store_cluster_floats(&mut self, at: Shared, values: &[F32]) {
        self.emit(format!("st.shared::cluster.v{}.f32", values.len()), [at.into(), vector(values)]);
    }

    /// Atomic maximum of non-negative floats in shared memory.
    pub fn max_shared(&mut self, at: Shared, value: F32) {
        // Non-negative floats order like their bits.
        let (old, bits) = (self.b32(), self.b32());
        self.emit("mov.b32", [bits.into(), value.into()]);
        self.emit("atom.shared.max.u32", [old.into(), at.into(), bits.into()]);
    }
}
