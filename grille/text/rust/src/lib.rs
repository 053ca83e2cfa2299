//! grille's text layer in Rust: the functions declared in `grille_text.h`.
//!
//! Every exported function goes through [`abi::guarded`], so that no panic crosses the boundary.

mod abi;
mod budget;
mod chat_template;
mod guard;
mod methods;
mod python;
mod source_limits;
mod tokenizer;
