//! Tool Search in a run of an agent: the calls of its tools, the schemas that are shown besides, and the word to a model that used none.

mod calls;
mod code;
mod exchanges;
mod hints;
mod likely;

pub(crate) use code::code_result;
pub(crate) use exchanges::Exchanges;
pub(crate) use likely::Likely;
