//! Types of parameters, results and casts.

use oxc_ast::ast::{
    ArrowFunctionExpression, FormalParameter, Function, TSThisParameter, TSTypeAnnotation, TSTypeParameterInstantiation,
};
use oxc_span::{GetSpan, Span};

use super::strip::Strip;
use crate::position::is_line_break;

impl Strip<'_> {
    pub(super) fn erase_annotation(&mut self, annotation: Option<&TSTypeAnnotation<'_>>) {
        if let Some(annotation) = annotation {
            self.erase(annotation.span);
        }
    }

    pub(super) fn erase_arguments(&mut self, arguments: Option<&TSTypeParameterInstantiation<'_>>) {
        if let Some(arguments) = arguments {
            self.erase(arguments.span);
        }
    }

    /// `as T` and `satisfies T`; a comment before them stays.
    pub(super) fn erase_cast(&mut self, expression: Span, cast: Span) {
        self.edits.erase(self.tokens.skip(expression.end).min(cast.end), cast.end);
    }

    pub(super) fn function(&mut self, function: &Function<'_>) {
        if let Some(parameters) = &function.type_parameters {
            self.erase(parameters.span);
        }
        if let Some(this) = &function.this_param {
            self.this_parameter(this);
        }
        self.erase_annotation(function.return_type.as_deref());
    }

    fn this_parameter(&mut self, this: &TSThisParameter<'_>) {
        let comma = self.tokens.sign(this.span.end, b",");
        self.edits.erase(this.span.start, comma.map_or(this.span.end, |comma| comma.end));
    }

    /// Arrow functions must not get line breaks where JavaScript allows none: before `=>`, and behind `async` or `return`. Then
    /// the parenthesis moves over the break.
    pub(super) fn arrow(&mut self, arrow: &ArrowFunctionExpression<'_>) {
        let parameters = arrow.params.span;
        if let Some(types) = &arrow.type_parameters {
            if self.breaks(types.span.start, parameters.start) {
                self.edits.erase_to(types.span.start, parameters.start + 1, '(');
            } else {
                self.erase(types.span);
            }
        }
        if let Some(result) = &arrow.return_type {
            if self.breaks(parameters.end, result.span.end) {
                self.edits.erase_behind(parameters.end - 1, result.span.end, ')');
            } else {
                self.erase(result.span);
            }
        }
    }

    fn breaks(&self, start: u32, end: u32) -> bool {
        self.text.get(start as usize..end as usize).is_some_and(|text| text.contains(is_line_break))
    }

    pub(super) fn parameter(&mut self, parameter: &FormalParameter<'_>) {
        let pattern = parameter.pattern.span();
        for modifier in self.tokens.modifiers(parameter.span.start, pattern.start) {
            self.erase(modifier);
        }
        if parameter.optional {
            self.erase_mark(pattern.end);
        }
        self.erase_annotation(parameter.type_annotation.as_deref());
    }
}
