//! Classes: what only the type checker reads, and parameters that become fields.

use oxc_ast::ast::{
    BindingPattern, Class, ClassElement, Expression, FunctionBody, MethodDefinition, MethodDefinitionKind,
    MethodDefinitionType, PropertyDefinitionType, PropertyKey, Statement,
};
use oxc_ast_visit::walk_js::walk_class_element;
use oxc_span::{GetSpan, Span};

use super::strip::Strip;
use crate::edits::Side;

impl Strip<'_> {
    pub(super) fn class(&mut self, class: &Class<'_>) {
        let words = self.tokens.words(class.span.start, class.body.span.start);
        for (word, _) in words.take_while(|(_, word)| *word != "class").filter(|(_, word)| *word == "abstract") {
            self.erase(word);
        }
        if let Some(parameters) = &class.type_parameters {
            self.erase(parameters.span);
        }
        if let Some(heritage) = &class.heritage {
            self.erase_arguments(heritage.type_arguments.as_deref());
        }
        if let Some(last) = class.implements.last() {
            let id = class.id.as_ref().map(|id| id.span.end);
            let types = class.type_parameters.as_ref().map(|types| types.span.end);
            let heritage = class.heritage.as_ref().map(|heritage| {
                let types = heritage.type_arguments.as_ref().map(|types| types.span.end);
                types.unwrap_or(heritage.expression.span().end)
            });
            // `class` itself is before the keyword if nothing else is.
            let class_end = self.tokens.words(class.span.start, last.span.start).find(|(_, word)| *word == "class");
            let before = heritage.or(types).or(id).or(class_end.map(|(span, _)| span.end));
            self.edits.erase(self.tokens.skip(before.unwrap_or(last.span.start)), last.span.end);
        }
        let constructors = class.body.body.iter().filter_map(|element| match element {
            ClassElement::MethodDefinition(method) if method.kind == MethodDefinitionKind::Constructor => Some(method),
            _ => None,
        });
        for constructor in constructors {
            self.parameter_properties(class, constructor);
        }
    }

    /// `constructor(readonly x) {}` declares a field and sets it, behind `super(…)` where there is one.
    fn parameter_properties(&mut self, class: &Class<'_>, constructor: &MethodDefinition<'_>) {
        let Some(body) = &constructor.value.body else { return };
        let mut fields = String::new();
        let mut assignments = String::from(";");
        for parameter in &constructor.value.params.items {
            if parameter.accessibility.is_none() && !parameter.readonly && !parameter.r#override {
                continue;
            }
            let pattern = match &parameter.pattern {
                BindingPattern::AssignmentPattern(pattern) => &pattern.left,
                pattern => pattern,
            };
            let BindingPattern::BindingIdentifier(name) = pattern else {
                return self.refuse(parameter.span.start, "a parameter property must be a plain name");
            };
            // Escapes stay as they are written.
            let name = &self.text[name.span.start as usize..name.span.end as usize];
            if name != "constructor" {
                fields.push_str(name);
                fields.push(';');
            }
            assignments.push_str(&format!("this.{name}={name};"));
        }
        if assignments.len() == 1 {
            return;
        }
        let at = match &class.heritage {
            Some(_) => super_end(body),
            None => Some(body.directives.last().map_or(body.span.start + 1, |directive| directive.span.end)),
        };
        match at {
            Some(at) => {
                self.edits.insert(class.body.span.start + 1, Side::Behind, fields);
                self.edits.insert(at, Side::Behind, assignments);
            }
            None => self.refuse(
                constructor.span.start,
                "parameter properties of a derived class need `super(…)` as a statement of the constructor",
            ),
        }
    }

    pub(super) fn class_element(&mut self, element: &ClassElement<'_>) {
        let span = element.span();
        let first = self.edits.count();
        match element {
            ClassElement::StaticBlock(_) | ClassElement::AccessorProperty(_) => walk_class_element(self, element),
            ClassElement::TSIndexSignature(_) => self.edits.erase_to(span.start, span.end, ';'),
            ClassElement::MethodDefinition(method) => {
                let has_body = method.value.body.is_some();
                if !has_body || method.r#type == MethodDefinitionType::TSAbstractMethodDefinition {
                    return self.edits.erase_to(span.start, span.end, ';');
                }
                self.member_modifiers(span, &method.key);
                if method.optional {
                    self.member_mark(&method.key, method.computed);
                }
                walk_class_element(self, element);
            }
            ClassElement::PropertyDefinition(property) => {
                if property.declare || property.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
                    return self.edits.erase_to(span.start, span.end, ';');
                }
                self.member_modifiers(span, &property.key);
                if property.optional || property.definite {
                    self.member_mark(&property.key, property.computed);
                }
                self.erase_annotation(property.type_annotation.as_deref());
                walk_class_element(self, element);
                self.end(first, span);
            }
        }
    }

    /// A modifier that begins a member becomes `;`: without it, the member could join the one before.
    fn member_modifiers(&mut self, member: Span, key: &PropertyKey<'_>) {
        for modifier in self.tokens.modifiers(member.start, key.span().start) {
            match modifier.start == member.start {
                true => self.edits.erase_to(modifier.start, modifier.end, ';'),
                false => self.erase(modifier),
            }
        }
    }

    fn member_mark(&mut self, key: &PropertyKey<'_>, computed: bool) {
        let end = key.span().end;
        let bracket = if computed { self.tokens.sign(end, b"]") } else { None };
        self.erase_mark(bracket.map_or(end, |bracket| bracket.end));
    }
}

/// Where the call of the super constructor ends.
fn super_end(body: &FunctionBody<'_>) -> Option<u32> {
    body.statements.iter().find_map(|statement| match statement {
        Statement::ExpressionStatement(statement) => match &statement.expression {
            Expression::CallExpression(call) if matches!(call.callee, Expression::Super(_)) => Some(statement.span.end),
            _ => None,
        },
        _ => None,
    })
}
