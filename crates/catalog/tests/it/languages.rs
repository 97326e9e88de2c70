//! Questions in other languages than the catalog's: what is found without a model of language, and what is not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use pincer_catalog::{Catalog, Entry, Index, Source, ToolId};

/// A catalog as people have it: owner, name, description.
const ENGLISH: &[(&str, &str, &str)] = &[
    ("github", "create_issue", "Create a new issue in a GitHub repository"),
    ("github", "list_issues", "List issues of a GitHub repository"),
    ("github", "search_repositories", "Search for GitHub repositories"),
    ("github", "create_pull_request", "Create a new pull request"),
    ("github", "get_file_contents", "Get the contents of a file of a repository"),
    ("slack", "send_message", "Send a message to a Slack channel"),
    ("slack", "list_channels", "List the channels of a workspace"),
    ("telegram", "send_photo", "Send a photo to a Telegram chat"),
    ("filesystem", "read_file", "Read the contents of a file"),
    ("filesystem", "write_file", "Write text to a file"),
    ("filesystem", "delete_file", "Delete a file"),
    ("filesystem", "move_file", "Move or rename a file"),
    ("filesystem", "list_directory", "List the files of a folder"),
    ("weather", "get_forecast", "Get the weather forecast for a city"),
    ("calendar", "create_event", "Create an event in the calendar"),
    ("calendar", "list_events", "List the events of a day"),
    ("gmail", "send_email", "Send an email"),
    ("gmail", "search_emails", "Search the emails of the mailbox"),
    ("maps", "get_directions", "Get the route between two places"),
    ("maps", "find_places", "Find restaurants and shops near a place"),
    ("translator", "translate_text", "Translate a text into another language"),
    ("finance", "get_stock_price", "Get the current price of a stock"),
    ("finance", "convert_currency", "Convert an amount from one currency to another"),
    ("travel", "search_flights", "Search for flights between two cities"),
    ("travel", "book_hotel", "Book a room in a hotel"),
    ("travel", "search_trains", "Search for trains and tickets"),
    ("news", "get_headlines", "Get the latest news"),
    ("music", "play_song", "Play a song"),
    ("spotify", "search_tracks", "Search the tracks of Spotify"),
    ("youtube", "search_videos", "Search for videos"),
    ("images", "generate_image", "Generate an image from a description"),
    ("postgres", "run_query", "Run a query against the database"),
    ("notion", "create_page", "Create a page in Notion"),
    ("todo", "add_task", "Add a task to the list"),
    ("todo", "set_reminder", "Set a reminder"),
    ("kitchen", "find_recipe", "Find a recipe by its ingredients"),
    ("jobs", "search_jobs", "Search for jobs at companies"),
    ("contacts", "find_contact", "Find the phone number or address of a contact"),
    ("shell", "execute_command", "Execute a command"),
    ("douban", "get_movie_rating", "Get the rating of a movie"),
];

/// A question, and the tool of [`ENGLISH`] that must be among the first three.
const QUESTIONS: &[(&str, &str)] = &[
    // Spanish
    ("crear una incidencia en GitHub", "create_issue"),
    ("¿qué tiempo hará mañana? dame el pronóstico del clima", "get_forecast"),
    ("enviar un correo a Juan", "send_email"),
    ("borra este archivo", "delete_file"),
    ("buscar vuelos a Madrid", "search_flights"),
    // French
    ("envoyer un message sur Slack", "send_message"),
    ("quelle est la météo à Paris ?", "get_forecast"),
    ("traduire ce texte en anglais", "translate_text"),
    ("cherche une recette avec des tomates", "find_recipe"),
    // German
    ("Erstelle ein Issue im Repository", "create_issue"),
    ("Wie wird das Wetter morgen?", "get_forecast"),
    ("Lösche die Datei", "delete_file"),
    ("Zeige den Aktienkurs von Siemens", "get_stock_price"),
    ("Übersetze diesen Text", "translate_text"),
    // Portuguese
    ("criar um evento no calendário", "create_event"),
    ("enviar uma mensagem no Slack", "send_message"),
    ("qual é o preço da ação da Petrobras", "get_stock_price"),
    // Italian
    ("prenota una camera in un albergo", "book_hotel"),
    ("mandami le ultime notizie", "get_headlines"),
    ("cerca un treno per Roma", "search_trains"),
    // Russian
    ("создай событие в календаре", "create_event"),
    ("отправить сообщение в слак", "send_message"),
    ("какая погода в Москве", "get_forecast"),
    ("найди репозиторий на гитхабе", "search_repositories"),
    ("найди трек в спотифай", "search_tracks"),
    // Ukrainian
    ("створити подію в календарі", "create_event"),
    ("видали цей файл", "delete_file"),
    ("переклади текст українською", "translate_text"),
    // Greek
    ("διάγραψε το αρχείο", "delete_file"),
    ("τι καιρό θα κάνει αύριο", "get_forecast"),
    ("στείλε ένα μήνυμα", "send_message"),
    // Chinese
    ("北京明天的天气怎么样", "get_forecast"),
    ("给张三发送一封电子邮件", "send_email"),
    ("搜索去上海的航班", "search_flights"),
    ("在github上创建一个issue", "create_issue"),
    ("查询豆瓣电影评分", "get_movie_rating"),
    // Japanese
    ("githubのissueを作成", "create_issue"),
    ("明日の天気を教えて", "get_forecast"),
    ("このファイルを削除してください", "delete_file"),
    ("メールを送って", "send_email"),
    ("スラックにメッセージを送信", "send_message"),
    // Korean
    ("내일 날씨 알려줘", "get_forecast"),
    ("파일을 삭제해 줘", "delete_file"),
    ("슬랙에 메시지를 보내줘", "send_message"),
    // Arabic
    ("ما هو الطقس غدا", "get_forecast"),
    ("احذف الملف", "delete_file"),
    ("أرسل رسالة", "send_message"),
    // Hindi
    ("कल का मौसम कैसा रहेगा", "get_forecast"),
    ("फ़ाइल हटाएं", "delete_file"),
    ("ईमेल भेजें", "send_email"),
    // Full-width letters, and accents that English has not
    ("ＧｉｔＨｕｂ　ｉｓｓｕｅ", "create_issue"),
    ("créate an événement in the calendár", "create_event"),
];

/// A catalog in other languages than English: owner, name, description.
const OTHERS: &[(&str, &str, &str)] = &[
    ("a", "tool1", "发送电子邮件给联系人"),
    ("b", "tool2", "查询城市的天气预报"),
    ("c", "tool3", "ファイルを削除します"),
    ("d", "tool4", "カレンダーに予定を作成する"),
    ("e", "tool5", "Создать задачу в репозитории"),
    ("f", "tool6", "Поиск авиабилетов и рейсов"),
    ("g", "tool7", "Traduce un texto a otro idioma"),
    ("h", "tool8", "Prüft die Größe einer Datei"),
    ("i", "tool9", "환율을 조회하고 통화를 변환합니다"),
    ("j", "tool10", "Αναζήτηση συνταγών μαγειρικής"),
];

/// In English or in the same language, and the tool of [`OTHERS`] that must come first.
const OTHER_QUESTIONS: &[(&str, &str)] = &[
    ("send an email", "tool1"),
    ("给联系人发电子邮件", "tool1"),
    ("weather forecast", "tool2"),
    ("天气预报", "tool2"),
    ("delete a file", "tool3"),
    ("ファイルの削除", "tool3"),
    ("add a calendar event", "tool4"),
    ("予定をカレンダーに", "tool4"),
    ("create a task in the repository", "tool5"),
    ("задачи репозитория", "tool5"),
    ("search flights", "tool6"),
    ("найди рейсы", "tool6"),
    ("translate a text", "tool7"),
    ("traducir textos a otros idiomas", "tool7"),
    ("grosse einer datei", "tool8"),
    ("convert currency", "tool9"),
    ("환율 조회", "tool9"),
    ("find a recipe", "tool10"),
    ("συνταγή μαγειρικής", "tool10"),
    // From one foreign language to another, by way of English.
    ("wetter", "tool2"),
    ("удали файл", "tool3"),
];

fn index(tools: &[(&str, &str, &str)]) -> Index {
    let entry = |(owner, name, description): &(&str, &str, &str)| {
        Entry::new(ToolId::new(Source::Mcp, *owner, *name).expect("an id"), *description)
    };
    Index::new(&Catalog::new(tools.iter().map(entry)).expect("different ids"))
}

fn found(index: &Index, question: &str, limit: usize) -> Vec<String> {
    index.search(question, limit).iter().map(|entry| entry.id.name().to_owned()).collect()
}

/// The questions for which the tool is not among the first `limit`, with what was found instead.
fn missed(tools: &[(&str, &str, &str)], questions: &[(&str, &str)], limit: usize) -> Vec<String> {
    let index = index(tools);
    let answered = questions.iter().map(|(question, tool)| (question, tool, found(&index, question, limit)));
    answered
        .filter(|(_, tool, found)| !found.iter().any(|name| name == *tool))
        .map(|(question, tool, found)| format!("{question}: {tool}, found {found:?}"))
        .collect()
}

#[test]
fn questions_in_thirteen_languages_find_english_tools() {
    assert_eq!(missed(ENGLISH, QUESTIONS, 3), Vec::<String>::new());
}

#[test]
fn tools_in_other_languages_are_found_in_theirs_and_in_english() {
    assert_eq!(missed(OTHERS, OTHER_QUESTIONS, 1), Vec::<String>::new());
}

#[test]
fn names_are_found_across_scripts() {
    let index = index(ENGLISH);
    for (question, owner) in [
        ("гитхаб", "github"),
        ("Телеграм", "telegram"),
        ("スポティファイ", "spotify"),
        ("豆瓣", "douban"),
        ("슬랙", "slack"),
    ] {
        let first = index.search(question, 1);
        assert_eq!(first.first().map(|entry| entry.id.owner()), Some(owner), "{question}");
    }
}

#[test]
fn words_that_neither_the_table_nor_a_name_covers_find_nothing() {
    let index = index(ENGLISH);
    for question in ["我想知道肯德基的营业状况", "поговорим о философии", "etwas über Philosophie?"]
    {
        assert_eq!(found(&index, question, 3), Vec::<String>::new(), "{question}");
    }
}
