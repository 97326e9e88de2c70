//! What enums and namespaces have as members.

use std::collections::HashSet;

use oxc_ast::ast::{
    BindingPattern, Declaration, Statement, TSEnumDeclaration, TSNamespaceDeclaration, TSNamespaceDeclarationBody,
    VariableDeclarationKind,
};

use super::enums::{is_variable, member_name};
use super::is_erased_declaration;

/// The members of an enum that can be written as variables.
pub(super) fn enum_members(declaration: &TSEnumDeclaration<'_>) -> Vec<String> {
    let names = declaration.body.members.iter().map(|member| member_name(&member.id).0);
    names.filter(|name| is_variable(name)).collect()
}

/// One name that a namespace exports.
pub(super) struct Export {
    pub(super) name: String,
    pub(super) kind: ExportKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExportKind {
    /// A variable that can be assigned to.
    Variable,
    Constant,
    /// An enum or a namespace, which an earlier declaration may have begun.
    Object,
}

/// What a namespace exports by itself.
pub(super) fn exports(namespace: &TSNamespaceDeclaration<'_>) -> Vec<Export> {
    let block = match &namespace.body {
        TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
            return vec![Export { name: inner.id.name.to_string(), kind: ExportKind::Object }];
        }
        TSNamespaceDeclarationBody::TSModuleBlock(block) => block,
    };
    let mut exports = Vec::new();
    for statement in &block.body {
        let Statement::ExportDeclaration(export) = statement else { continue };
        if is_erased_declaration(&export.declaration) {
            continue;
        }
        let mut add = |name: &str, kind| exports.push(Export { name: name.to_owned(), kind });
        match &export.declaration {
            Declaration::VariableDeclaration(variables) => {
                let kind = match variables.kind {
                    VariableDeclarationKind::Var | VariableDeclarationKind::Let => ExportKind::Variable,
                    _ => ExportKind::Constant,
                };
                for variable in &variables.declarations {
                    bound_names(&variable.id, &mut |name| add(name, kind));
                }
            }
            Declaration::FunctionDeclaration(function) => {
                function.id.iter().for_each(|id| add(&id.name, ExportKind::Variable));
            }
            Declaration::ClassDeclaration(class) => class.id.iter().for_each(|id| add(&id.name, ExportKind::Variable)),
            Declaration::TSEnumDeclaration(declaration) => add(&declaration.id.name, ExportKind::Object),
            Declaration::TSNamespaceDeclaration(namespace) => add(&namespace.id.name, ExportKind::Object),
            _ => {}
        }
    }
    // Of several that are merged into one, the first decides: a class or a function has a variable already.
    let mut seen = HashSet::new();
    exports.retain(|export| seen.insert(export.name.clone()));
    exports
}

fn bound_names(pattern: &BindingPattern<'_>, found: &mut impl FnMut(&str)) {
    let mut left = vec![pattern];
    while let Some(pattern) = left.pop() {
        match pattern {
            BindingPattern::BindingIdentifier(id) => found(&id.name),
            BindingPattern::AssignmentPattern(pattern) => left.push(&pattern.left),
            BindingPattern::ObjectPattern(pattern) => {
                left.extend(pattern.rest.iter().map(|rest| &rest.argument));
                left.extend(pattern.properties.iter().rev().map(|property| &property.value));
            }
            BindingPattern::ArrayPattern(pattern) => {
                left.extend(pattern.rest.iter().map(|rest| &rest.argument));
                left.extend(pattern.elements.iter().rev().flatten());
            }
        }
    }
}
