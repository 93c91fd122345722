//! Loads, stores, slices, DMAs and the matmul.

use super::FunctionBuilder;
use crate::{
    attribute::{Attr, Attributes, DotDimensions},
    ir::Value,
    types::{Float, Type},
};

/// The memrefs of a DMA.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Source.
    pub source: Value,
    /// Destination.
    pub target: Value,
    /// Semaphore signalled on completion.
    pub semaphore: Value,
}

impl FunctionBuilder {
    /// Loads a vector of `shape` from `memref` at `indices`. Leading unit dimensions that only select are
    /// dropped, so the result has the rank of `shape`.
    pub fn load(&mut self, memref: Value, indices: &[Value], shape: impl Into<Vec<usize>>) -> Value {
        let shape = shape.into();
        let full = self.leading_ones(memref, indices, &shape);
        let element = self.ty(memref).element().clone();
        let operands: Vec<Value> = [&[memref], indices].concat();
        let loaded = Type::vector(full, element);
        let vector = self.op1("vector.load", &operands, loaded, Attributes::new());
        self.shape_cast(vector, shape)
    }

    /// Stores a vector to `memref` at `indices`.
    pub fn store(&mut self, vector: Value, memref: Value, indices: &[Value]) {
        let shape = self.ty(vector).shape().to_vec();
        let full = self.leading_ones(memref, indices, &shape);
        assert_eq!(self.ty(vector).element(), self.ty(memref).element(), "a store does not convert");
        let vector = self.shape_cast(vector, full);
        let operands: Vec<Value> = [&[vector, memref], indices].concat();
        let attributes = Attributes::new().with("strides", Attr::I32s(Vec::new()));
        self.op0("tpu.vector_store", &operands, attributes);
    }

    /// Loads a scalar.
    pub fn load_scalar(&mut self, memref: Value, indices: &[Value]) -> Value {
        let element = self.ty(memref).element().clone();
        let operands: Vec<Value> = [&[memref], indices].concat();
        self.op1("memref.load", &operands, element, Attributes::new())
    }

    /// Shape of an access, extended to the rank of the memref.
    fn leading_ones(&self, memref: Value, indices: &[Value], shape: &[usize]) -> Vec<usize> {
        let rank = self.ty(memref).shape().len();
        assert_eq!(indices.len(), rank, "one index per dimension");
        let mut full = vec![1; rank - shape.len()];
        full.extend_from_slice(shape);
        full
    }

    /// Asserts to the compiler that an integer is a multiple of a constant.
    pub fn multiple_of(&mut self, value: Value, multiple: usize) -> Value {
        let ty = self.ty(value).clone();
        let multiple = Attr::Integer(multiple as i64, Type::I32);
        let attributes = Attributes::new().with("multiple", multiple);
        self.op1("tpu.assume_multiple", &[value], ty, attributes)
    }

    /// Reshapes a vector; a no-op for equal shapes.
    pub fn shape_cast(&mut self, vector: Value, shape: impl Into<Vec<usize>>) -> Value {
        let shape = shape.into();
        if self.ty(vector).shape() == shape {
            return vector;
        }
        let ty = self.ty(vector).with_shape(shape);
        self.op1("vector.shape_cast", &[vector], ty, Attributes::new())
    }

    /// Broadcasts a scalar, row or column to `shape`.
    pub fn broadcast(&mut self, value: Value, shape: impl Into<Vec<usize>>) -> Value {
        let ty = self.ty(value).with_shape(shape);
        self.op1("vector.broadcast", &[value], ty, Attributes::new())
    }

    /// Transposes a matrix.
    pub fn transpose(&mut self, matrix: Value) -> Value {
        let &[rows, cols] = self.ty(matrix).shape() else { panic!("only a matrix is transposed") };
        let ty = self.ty(matrix).with_shape([cols, rows]);
        let attributes = Attributes::new().with("permutation", Attr::extents(&[1, 0]));
        self.op1("tpu.transpose", &[matrix], ty, attributes)
    }

    /// Extracts the slice of a vector that starts at `offsets`.
    pub fn slice(&mut self, vector: Value, offsets: &[usize], shape: &[usize]) -> Value {
        if self.ty(vector).shape() == shape {
            return vector;
        }
        let list = |items: &[usize]| Attr::Array(items.iter().map(|&i| Attr::i64(i)).collect());
        let attributes = Attributes::new()
            .with("offsets", list(offsets))
            .with("sizes", list(shape))
            .with("strides", list(&vec![1; shape.len()]));
        let ty = self.ty(vector).with_shape(shape);
        self.op1("vector.extract_strided_slice", &[vector], ty, attributes)
    }

    /// Slices a memref at `offsets`; leading dimensions beyond the rank of `shape` select one element and are
    /// dropped.
    pub fn slice_memref(&mut self, memref: Value, offsets: &[Value], shape: &[usize]) -> Value {
        let full = self.leading_ones(memref, offsets, shape);
        let ty = self.ty(memref).with_shape(full.clone());
        let operands: Vec<Value> = [&[memref], offsets].concat();
        let sliced = self.op1("tpu.memref_slice", &operands, ty.clone(), Attributes::new());
        if full == shape {
            return sliced;
        }
        let ty = ty.with_shape(shape);
        self.op1("tpu.memref_squeeze", &[sliced], ty, Attributes::new())
    }

    /// The first rows and columns of a memref.
    pub fn first_of(&mut self, memref: Value, shape: &[usize]) -> Value {
        if self.ty(memref).shape() == shape {
            return memref;
        }
        let zeros: Vec<Value> = shape.iter().map(|_| self.i32(0)).collect();
        self.slice_memref(memref, &zeros, shape)
    }

    /// Starts a DMA.
    pub fn start(&mut self, copy: Copy) {
        let attributes = Attributes::new().with("operandSegmentSizes", Attr::I32s(vec![1, 0, 1, 1, 0, 0]));
        let operands = [copy.source, copy.target, copy.semaphore];
        self.op0("tpu.enqueue_dma", &operands, attributes);
    }

    /// Waits for a DMA to complete.
    pub fn wait(&mut self, copy: Copy) {
        let operands = [copy.semaphore, copy.source, copy.target];
        self.op0("tpu.wait_dma2", &operands, Attributes::new());
    }

    /// `lhs * rhs^T`, accumulated in f32.
    pub fn matmul(&mut self, lhs: Value, rhs: Value) -> Value {
        self.product(lhs, rhs, DotDimensions::rows_by_rows())
    }

    /// `lhs * rhs`, accumulated in f32.
    pub fn matmul_by_columns(&mut self, lhs: Value, rhs: Value) -> Value {
        self.product(lhs, rhs, DotDimensions::rows_by_columns())
    }

    fn product(&mut self, lhs: Value, rhs: Value, dimensions: DotDimensions) -> Value {
        let (&[m, lhs_k], rhs_shape) = (self.ty(lhs).shape(), self.ty(rhs).shape()) else {
            panic!("a product takes two matrices");
        };
        let (n, rhs_k) = (rhs_shape[dimensions.rhs_kept[0]], rhs_shape[dimensions.rhs_contracting[0]]);
        assert_eq!(lhs_k, rhs_k, "both operands of a product have the same K");
        let zero = self.splat(0.0, [m, n]);
        let mut attributes = Attributes::new()
            .with("dimension_numbers", Attr::Dot(dimensions))
            .with("transpose_lhs_hint", false);
        // The MXU rounds wider operands to bf16 unless more passes are requested.
        if *self.ty(lhs).element() == Type::F32 {
            attributes = attributes.with("precision", Attr::Other("#tpu.contract_precision<fp32>".into()));
        }
        let ty = Type::vector([m, n], Float::F32);
        self.op1("tpu.matmul", &[lhs, rhs, zero], ty, attributes)
    }

    /// Puts 256 x 256 weights into the staging register of an MXU. The next [`Self::accumulate`] of that MXU
    /// with `loads_staged` takes them out.
    pub fn push_weights(&mut self, weights: Value, mxu: usize, transpose: bool) {
        let attributes = Attributes::new()
            .with("mxu_index", Attr::i32(mxu))
            .with("staging_register", Attr::i32(0))
            .with("transpose", transpose);
        self.op0("tpu.matmul_push_rhs", &[weights], attributes);
    }

    /// Adds `lhs` times the weights of an MXU to its accumulators from `address` on. Four rows take one
    /// address.
    pub fn accumulate(&mut self, address: usize, lhs: Value, mxu: usize, loads_staged: bool) {
        let mut attributes =
            Attributes::new().with("acc", Attr::i32(address)).with("mxu_index", Attr::i32(mxu));
        if loads_staged {
            attributes = attributes.with("load_staged_rhs", Attr::i32(0));
        }
        self.op0("tpu.matmul_acc_lhs", &[lhs], attributes);
    }

    /// Takes sums out of the accumulators of an MXU, which are zero afterwards.
    pub fn pop_sums(&mut self, address: usize, shape: [usize; 2], mxu: usize) -> Value {
        let attributes = Attributes::new().with("acc", Attr::i32(address)).with("mxu_index", Attr::i32(mxu));
        self.op1("tpu.matmul_pop", &[], Type::vector(shape, Float::F32), attributes)
    }
}
