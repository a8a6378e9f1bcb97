//! Whether answers fit the questions: a wrong or partial answer would reach the agent as nonsense, or hang its run. Pure.

use serde_json::{Map, Value};

use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::text;
use crate::machine::Question;

/// The answers as T3 wants them: question id to a text, or to a list of texts.
pub(super) fn check(questions: &[Question], given: &Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
    if let Some(unknown) = given.keys().find(|key| questions.iter().all(|q| q.id != **key)) {
        return Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("There is no question `{}`.", text::quoted(unknown)),
        )
        .hint(format!("Answer by question id. {}", described(questions)))
        .with("questions", ids(questions)));
    }
    let mut answers = Map::new();
    let mut missing = Vec::new();
    for question in questions {
        let answer = match given.get(&question.id) {
            Some(value) => one(question, value)?,
            None => None,
        };
        match answer {
            Some(value) => {
                answers.insert(question.id.clone(), value);
            }
            None if question.required == Some(false) => {}
            None => missing.push(question),
        }
    }
    if !missing.is_empty() {
        return Err(ToolError::new(
            ErrorCode::InvalidRequest,
            "Every question must be answered in one call; nothing was sent.",
        )
        .hint(format!("Missing: {}", described(missing.iter().copied())))
        .with(
            "missing",
            missing.iter().map(|question| question.id.clone()).collect::<Vec<_>>(),
        ));
    }
    if answers.is_empty() && !questions.is_empty() {
        return Err(ToolError::new(
            ErrorCode::InvalidRequest,
            "At least one question must be answered; to close them all use dismiss.",
        ));
    }
    Ok(answers)
}

/// The answer to one question; none where it is empty.
fn one(question: &Question, value: &Value) -> Result<Option<Value>, ToolError> {
    match value {
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => chosen(question, text).map(|text| Some(Value::String(text))),
        Value::Array(several) => {
            let texts = several
                .iter()
                .map(|entry| entry.as_str().filter(|text| !text.trim().is_empty()))
                .collect::<Option<Vec<&str>>>()
                .ok_or_else(|| wrong(question, "takes texts"))?;
            if texts.len() > 1 && question.multi_select == Some(false) {
                return Err(wrong(question, "takes one answer"));
            }
            let chosen = texts
                .into_iter()
                .map(|text| chosen(question, text).map(Value::String))
                .collect::<Result<Vec<_>, _>>()?;
            match (question.multi_select, chosen.as_slice()) {
                (_, []) => Ok(None),
                (Some(false), [only]) => Ok(Some(only.clone())),
                _ => Ok(Some(Value::Array(chosen))),
            }
        }
        Value::Null => Ok(None),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(wrong(question, "takes a text or a list of texts")),
    }
}

/// What is sent for a text: the value of the option that it names by label or value, else the text itself where that is allowed.
fn chosen(question: &Question, text: &str) -> Result<String, ToolError> {
    let named = question.options.iter().find(|option| option.label == text).or_else(|| {
        question
            .options
            .iter()
            .find(|option| option.value.as_deref() == Some(text))
    });
    if let Some(option) = named {
        return Ok(option.value.clone().unwrap_or_else(|| option.label.clone()));
    }
    // A question without options can only be answered in one's own words.
    if question.allow_custom == Some(false) && !question.options.is_empty() {
        return Err(wrong(question, "takes only its options"));
    }
    Ok(text.to_owned())
}

fn wrong(question: &Question, rule: &str) -> ToolError {
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!("The question `{}` {rule}; nothing was sent.", question.id),
    )
    .hint(described([question]))
}

fn ids(questions: &[Question]) -> Vec<String> {
    questions.iter().map(|question| question.id.clone()).collect()
}

fn described<'a>(questions: impl IntoIterator<Item = &'a Question>) -> String {
    let each: Vec<String> = questions
        .into_iter()
        .map(|question| {
            let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
            if labels.is_empty() {
                format!("`{}` ({}; free text)", question.id, question.question)
            } else {
                format!("`{}` ({}; {})", question.id, question.question, labels.join(" | "))
            }
        })
        .collect();
    format!("{}.", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::QuestionOption;
    use serde_json::json;

    fn option(label: &str, value: Option<&str>) -> QuestionOption {
        QuestionOption {
            label: label.to_owned(),
            description: String::new(),
            value: value.map(str::to_owned),
        }
    }

    fn question(id: &str) -> Question {
        Question {
            id: id.to_owned(),
            header: id.to_owned(),
            question: format!("{id}?"),
            options: vec![option("Red", Some("r")), option("Blue", None)],
            multi_select: None,
            allow_custom: None,
            required: None,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "the tests read better")]
    fn sent(questions: &[Question], given: Value) -> Result<Value, ErrorCode> {
        check(questions, given.as_object().expect("an object"))
            .map(Value::Object)
            .map_err(|e| e.code)
    }

    const REFUSED: Result<Value, ErrorCode> = Err(ErrorCode::InvalidRequest);

    #[test]
    fn a_label_is_sent_as_its_value_and_a_value_as_itself() {
        assert_eq!(sent(&[question("a")], json!({"a": "Red"})), Ok(json!({"a": "r"})));
        assert_eq!(sent(&[question("a")], json!({"a": "r"})), Ok(json!({"a": "r"})));
        assert_eq!(sent(&[question("a")], json!({"a": "Blue"})), Ok(json!({"a": "Blue"})));
    }

    #[test]
    fn a_list_goes_where_several_may_be_chosen() {
        assert_eq!(
            sent(&[question("a")], json!({"a": ["Red", "Blue"]})),
            Ok(json!({"a": ["r", "Blue"]}))
        );
        let single = Question {
            multi_select: Some(false),
            ..question("a")
        };
        assert_eq!(
            sent(std::slice::from_ref(&single), json!({"a": ["Red", "Blue"]})),
            REFUSED
        );
        assert_eq!(sent(&[single], json!({"a": ["Red"]})), Ok(json!({"a": "r"})));
    }

    #[test]
    fn own_words_go_unless_only_options_are_allowed() {
        assert_eq!(sent(&[question("a")], json!({"a": "Green"})), Ok(json!({"a": "Green"})));
        let closed = Question {
            allow_custom: Some(false),
            ..question("a")
        };
        assert_eq!(sent(std::slice::from_ref(&closed), json!({"a": "Green"})), REFUSED);
        let without_options = Question {
            options: Vec::new(),
            ..closed
        };
        assert_eq!(
            sent(&[without_options], json!({"a": "Green"})),
            Ok(json!({"a": "Green"}))
        );
    }

    #[test]
    fn empty_or_partial_answers_name_what_is_missing() {
        let questions = [question("a"), question("b")];
        for given in [
            json!({}),
            json!({"a": "Red"}),
            json!({"a": "Red", "b": "  "}),
            json!({"a": "Red", "b": []}),
        ] {
            let error = check(&questions, given.as_object().expect("an object")).err();
            assert!(error.is_some_and(|e| e.extra["missing"].as_array().is_some_and(|m| m.contains(&json!("b")))));
        }
    }

    #[test]
    fn what_is_not_required_may_be_left_out_but_not_everything() {
        let optional = Question {
            required: Some(false),
            ..question("b")
        };
        assert_eq!(
            sent(&[question("a"), optional.clone()], json!({"a": "Red"})),
            Ok(json!({"a": "r"}))
        );
        assert_eq!(sent(&[optional], json!({})), REFUSED);
    }

    #[test]
    fn a_question_that_was_not_asked_is_refused() {
        assert_eq!(sent(&[question("a")], json!({"a": "Red", "z": "x"})), REFUSED);
    }

    #[test]
    fn other_values_than_texts_are_refused() {
        for value in [json!(1), json!(true), json!({"x": 1}), json!(["Red", 2])] {
            assert_eq!(sent(&[question("a")], json!({"a": value})), REFUSED);
        }
    }
}
