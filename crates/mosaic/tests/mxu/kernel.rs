//! Kernels that control the MXUs, line by line.

use octile_mosaic::{
    Float,
    interpret::{Element, Options, Outcome, Tensor, Trouble, simulate},
    parse,
};

use super::support::{floats, rates};

/// Small integers that differ along rows and columns, exact in every type.
pub(crate) fn number(i: usize) -> f32 {
    (i * 7919 % 9) as f32 - 4.0
}

pub(crate) fn tensor(shape: &[usize], float: Float, value: impl Fn(usize) -> f32) -> Tensor {
    let wide = floats(shape, value);
    let values = wide.to_f32().into_iter();
    let bytes: Vec<u8> = match float {
        Float::F32 => return wide,
        Float::Bf16 => values.flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect(),
        Float::F8E4M3FN => values.map(|v| octile_core::fp8::E4m3::from_f32(v).to_bits()).collect(),
        Float::F8E5M2 => values.map(|v| octile_core::fp8::E5m2::from_f32(v).to_bits()).collect(),
        other => panic!("no operand is {other}"),
    };
    Tensor { element: Element::Float(float), shape: shape.to_vec(), bytes: bytes.into() }
}

pub(crate) const SIDE: usize = 256;

/// A kernel on `%x` and `%w` of 256 x 512 elements each, a result `%out` of 256 x 256 and a scratch buffer
/// `%a` like `%x`. Line 5 is the first of the body.
pub(crate) struct Kernel {
    pub(crate) float: Float,
    pub(crate) attributes: &'static str,
    body: String,
    values: usize,
}

impl Kernel {
    pub(crate) fn new(float: Float) -> Self {
        Self { float, attributes: "", body: String::new(), values: 0 }
    }

    pub(crate) fn line(mut self, text: &str) -> Self {
        self.body += text;
        self.body.push('\n');
        self
    }

    pub(crate) fn load(mut self, from: &str, rows: usize, column: usize) -> Self {
        self.values += 1;
        let (float, value) = (self.float, self.values);
        self.line(&format!(
            "%v{value} = vector.load %{from}[%c0, %c{column}] : memref<256x512x{float}, \
             #tpu.memory_space<vmem>>, vector<{rows}x256x{float}>"
        ))
    }

    /// Pushes 256 columns of a buffer; the push is the second of two lines.
    pub(crate) fn push(
        self,
        from: &str,
        column: usize,
        [mxu, register]: [usize; 2],
        transpose: bool,
    ) -> Self {
        let kernel = self.load(from, SIDE, column);
        let (value, float) = (kernel.values, kernel.float);
        kernel.line(&format!(
            "\"tpu.matmul_push_rhs\"(%v{value}) {{mxu_index = {mxu} : i32, staging_register = {register} : \
             i32, transpose = {transpose}}} : (vector<256x256x{float}>) -> ()"
        ))
    }

    /// Multiplies rows of a buffer; the multiplication is the second of two lines.
    pub(crate) fn multiply(
        self,
        from: &str,
        rows: usize,
        column: usize,
        at: [usize; 2],
        load: Option<usize>,
    ) -> Self {
        let ([mxu, address], kernel) = (at, self.load(from, rows, column));
        let load = load.map(|register| format!("load_staged_rhs = {register} : i32, ")).unwrap_or_default();
        let (value, float) = (kernel.values, kernel.float);
        kernel.line(&format!(
            "\"tpu.matmul_acc_lhs\"(%v{value}) {{acc = {address} : i32, {load}mxu_index = {mxu} : i32}} : \
             (vector<{rows}x256x{float}>) -> ()"
        ))
    }

    /// Pops rows into the result from a row on; the pop is the first of two lines.
    pub(crate) fn pop(mut self, rows: usize, [mxu, address]: [usize; 2], row: usize) -> Self {
        self.values += 1;
        let value = self.values;
        self.line(&format!(
            "%v{value} = \"tpu.matmul_pop\"() {{acc = {address} : i32, mxu_index = {mxu} : i32}} : () -> \
             vector<{rows}x256xf32>"
        ))
        .line(&format!(
            "vector.store %v{value}, %out[%c{row}, %c0] : memref<256x256xf32, #tpu.memory_space<vmem>>, \
             vector<{rows}x256xf32>"
        ))
    }

    pub(crate) fn text(&self) -> String {
        let (float, attributes, body) = (self.float, self.attributes, &self.body);
        let grid = if attributes.is_empty() { "" } else { "%step: i32, " };
        let [whole, out] = [format!("256x512x{float}"), "256x256xf32".to_owned()]
            .map(|ty| format!("memref<{ty}, #tpu.memory_space<vmem>>"));
        let constants: Vec<String> = [0, 64, 128, 192, 256]
            .iter()
            .map(|number| format!("%c{number} = arith.constant {number} : index "))
            .collect();
        format!(
            "module {{\nfunc.func @k({grid}%x: {whole}, %w: {whole}, %out: {out}, %a: {whole}) attributes \
             {{{attributes}scratch_operands = 1 : i64, window_params = [{{}}, {{}}, {{}}]}} {{\n{}\n\n{body}\
             return\n}}\n}}\n",
            constants.concat()
        )
    }

    pub(crate) fn try_run(&self) -> Result<Outcome, String> {
        let text = self.text();
        let module = parse(&text).map_err(|error| format!("{error}\n{text}"))?;
        let printed = module.to_string();
        assert_eq!(parse(&printed).map(|module| module.to_string()), Ok(printed));
        simulate(&module, &operands(self.float), &Options::new(rates())).map_err(|error| error.to_string())
    }

    pub(crate) fn run(&self) -> Outcome {
        self.try_run().unwrap_or_else(|error| panic!("{error}\n{}", self.text()))
    }

    /// The result of a kernel without findings.
    pub(crate) fn result(&self) -> Vec<f32> {
        let outcome = self.run();
        assert_eq!((&outcome.findings[..], outcome.completed), (&[][..], true), "{}", self.text());
        outcome.outputs[0].to_f32()
    }

    pub(crate) fn findings(&self) -> Vec<Trouble> {
        self.run().findings.into_iter().map(|finding| finding.trouble).collect()
    }
}

pub(crate) fn operands(float: Float) -> [Tensor; 2] {
    let shape = [SIDE, 2 * SIDE];
    [tensor(&shape, float, number), tensor(&shape, float, |i| number(i + i / 512))]
}
