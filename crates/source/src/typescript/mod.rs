//! TypeScript becomes JavaScript in place: types turn into spaces, and the few things that do something at run time are
//! written out on the lines they stand on.

mod classes;
mod enums;
mod exports;
mod functions;
mod namespaces;
mod scope;
mod strip;
mod tokens;

use std::sync::atomic::{AtomicU64, Ordering};

use oxc_ast::Comment;
use oxc_ast::ast::{
    Declaration, FunctionBody, ModuleDeclaration, Statement, TSNamespaceDeclaration, TSNamespaceDeclarationBody,
};

use self::tokens::Tokens;
use crate::edits::Edits;
use crate::parse::Wrapped;
use crate::trailing::Trailing;

static PREPARATIONS: AtomicU64 = AtomicU64::new(0);

/// How often this process has looked at types, so that a test can show that JavaScript never gets there.
pub fn typescript_preparations() -> u64 {
    PREPARATIONS.load(Ordering::Relaxed)
}

/// A part of a program that cannot be translated, and its position.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    pub at: u32,
    pub message: String,
}

/// The changes that make JavaScript of a program. The statement of `trailing` goes on to be edited, so it is not ended.
pub(crate) fn strip(
    wrapped: &Wrapped,
    body: &FunctionBody<'_>,
    comments: &[Comment],
    trailing: Option<Trailing>,
) -> Result<Edits, Refusal> {
    PREPARATIONS.fetch_add(1, Ordering::Relaxed);
    strip::Strip::new(Tokens::new(wrapped.text(), comments), wrapped.text(), trailing).run(body)
}

/// Whether nothing is left of a statement at run time.
pub(crate) fn is_erased(statement: &Statement<'_>) -> bool {
    if let Some(declaration) = statement.as_declaration() {
        return is_erased_declaration(declaration);
    }
    match statement.as_module_declaration() {
        Some(ModuleDeclaration::ExportDeclaration(export)) => is_erased_declaration(&export.declaration),
        _ => false,
    }
}

fn is_erased_declaration(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::TSTypeAliasDeclaration(_)
        | Declaration::TSInterfaceDeclaration(_)
        | Declaration::TSExternalModuleDeclaration(_)
        | Declaration::TSGlobalDeclaration(_) => true,
        Declaration::VariableDeclaration(variables) => variables.declare,
        Declaration::FunctionDeclaration(function) => function.declare || function.body.is_none(),
        Declaration::ClassDeclaration(class) => class.declare,
        Declaration::TSEnumDeclaration(declaration) => declaration.declare,
        Declaration::TSNamespaceDeclaration(namespace) => namespace.declare || !has_values(namespace),
        Declaration::TSImportEqualsDeclaration(_) => false,
    }
}

/// Whether a namespace holds more than types. An empty one does not.
fn has_values(namespace: &TSNamespaceDeclaration<'_>) -> bool {
    let mut namespace = namespace;
    loop {
        match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => namespace = inner,
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                return block.body.iter().any(|statement| !is_erased(statement));
            }
        }
    }
}
