//! The words that requests to tools have most often, in thirteen languages. Written for this by hand.
//!
//! Each line has the English words, a colon, and what other languages say: Spanish, French, German, Portuguese, Italian, Russian,
//! Ukrainian, Greek, Chinese, Japanese, Korean, Arabic and Hindi. A `~` stands for an ending. Words that English has too are left out,
//! and so are those that merely begin alike (`documento`, `musique`): a search finds these by itself. A test compares the table with the
//! English words that are known here.

pub(super) const WORDS: &str = "\
create: crear crea crée creé creando creación créer créez créé erstell~ anlegen anlege criar crie criando creare creo создай~ \
    создать создан~ создав~ створи~ створен~ δημιουργ~ 创建 新建 建立 作成 作って 作る 新規 만들 생성 أنشئ إنشاء انشاء बनाएं बनाओ \
    बनाना बनाए
delete: eliminar elimina eliminando borrar borra supprime~ lösch~ löschen gelöscht apagar apague excluir exclua eliminare \
    cancellare удал~ видал~ διαγραφ~ διαγρα~ 删除 移除 削除 消して 삭제 지워 احذف حذف हटाएं हटाओ हटाना हटाए
update: actualiza~ actualis~ aktualisier~ atualiza~ aggiorna~ обнови~ обновл~ обновит~ онови~ оновл~ ενημερω~ ενημέρω~ 更新 修改 \
    変更 업데이트 수정 갱신 حدث تحديث अपडेट अद्यतन
change edit: cambiar modificar modifica modifie modifiez ändern ändere bearbeit~ alterar altere modificare измени~ редактир~ \
    зміни~ редагу~ αλλαξ~ επεξεργα~ 编辑 更改 編集 편집 변경 عدل تعديل غير बदलें बदलो संपादित
search find: buscar busca búsqueda encontrar encuentra cherche cherchez chercher recherche~ trouve~ suchen suche sucht finde \
    procurar encontre pesquisa~ cerca cercare ricerca trova trovare найди найти поиск ищи искать знайди знайти пошук шукай шукати \
    αναζητ~ βρες βρεις 搜索 查找 寻找 搜寻 检索 検索 探して 探す 검색 찾아 찾기 ابحث بحث खोज~ ढूंढ~
show list: mostrar muestra muéstrame listar lista affiche~ montre montrez montrer zeig~ anzeigen auflisten liste mostre mostrare \
    mostra mostrami elenca elenco покажи показать список перечисли показати перелік εμφανισ~ δειξ~ λιστα 显示 列出 列表 表示 一覧 \
    보여 목록 표시 اعرض عرض قائمه दिखाएं दिखाओ दिखाना सूची
get: obtener obtén obtenir récupère récupérer abrufen holen obter obtenha ottenere ottieni получи получить отримай отримати 获取 \
    获得 查询 查看 取得 가져와 조회 احصل प्राप्त
send: enviar envía envie enviando envoi envoie envoyer envoyez schick~ senden sende versende~ mande invia inviare отправ~ пошли \
    надішл~ надісла~ відправ~ στειλ~ στέλν~ αποστολ~ 发送 发给 寄送 送信 送って 送る 보내 전송 أرسل ارسل إرسال भेजें भेजो भेजना \
    भेज
read: leer lire lisez vorles~ lesen ler leia leggere leggi прочитай прочитать читать прочти прочитати читати διαβασ~ 读取 阅读 \
    読んで 読む 読み 읽어 읽기 اقرأ قراءه पढ़ें पढ़ो पढ़ना
write: escribir escribe écrire écris écrivez schreib~ escrever escreva scrivere scrivi напиши написать запиши написати γραψ~ 写入 \
    撰写 写 書いて 書く 書き 써줘 작성 اكتب كتابه लिखें लिखो लिखना
open: abrir abre ouvrir ouvre öffne öffnen abra aprire apri открой открыть відкрий відкрити ανοιξ~ 打开 開く 開いて 열어 열기 \
    افتح فتح खोलें खोलो
save: guardar guarda enregistre~ sauvegarde~ speicher~ salvar salvare salva сохран~ зберегти збережи αποθηκευ~ 保存 저장 احفظ حفظ \
    सहेजें सहेजो
copy: copiar copia copiez kopier~ copiare скопир~ копир~ скопію~ копію~ αντιγρα~ 复制 拷贝 コピー 복사 انسخ نسخ कॉपी
move: mover mueve déplace~ verschieb~ mova spostare sposta перемест~ перенес~ перемісти~ μετακιν~ 移动 移動 이동 옮겨 انقل نقل
download: descarga~ télécharge~ herunterlad~ herunterladen baixar baixe scarica~ скача~ загруз~ завантаж~ κατεβασ~ 下载 \
    ダウンロード 다운로드 تحميل نزل डाउनलोड
upload: subir sube téléverse~ hochlad~ hochladen carregar caricare carica выгруз~ вивантаж~ ανεβασ~ 上传 アップロード 업로드 ارفع \
    رفع अपलोड
translate: traduc~ traduz~ traduis~ traduire traduit übersetz~ traduci tradurre traduzione перевед~ перевод~ переклад~ переклас~ \
    μεταφρα~ 翻译 翻訳 번역 ترجم ترجمه अनुवाद
convert: convertir convierte convertis convertissez umwandel~ umrechn~ umwandle converta convertire converti конверт~ \
    преобраз~ перетвор~ конвертуй μετατροπ~ μετατρεψ~ 转换 换算 変換 변환 حول تحويل बदलना
calculate: calcular calcula calcule calculez berechn~ ausrechnen calcolare calcola вычисл~ посчита~ рассчита~ обчисл~ порахуй \
    порахувати υπολογ~ 计算 計算 계산 احسب حساب गणना
compare: comparar compara comparez vergleich~ confrontare confronta сравн~ порівня~ συγκριν~ 比较 比較 비교 قارن مقارنه तुलना
summarize summary: resumir resumen résumer résumez zusammenfass~ resumo riassum~ riassunto резюмир~ кратко підсум~ περιληψ~ 总结 \
    摘要 概括 要約 요약 لخص ملخص सारांश
run execute: ejecutar ejecuta ausführen führe executar eseguire esegui запуст~ выполн~ викона~ εκτελεσ~ 运行 执行 実行 \
    실행 شغل نفذ تشغيل चलाएं चलाओ
start: iniciar inicia démarre~ começar avviare avvia начать начни почати почни 启动 开始 開始 시작 ابدأ शुरू
stop: detener detén arrête~ parar fermare ferma останов~ зупин~ σταματ~ 停止 中止 중지 أوقف रोकें रोको
buy order: comprar compra achète~ acheter kaufen kaufe bestell~ bestellung encomend~ comprare ordine купить купи заказ~ купити \
    замов~ αγορασ~ παραγγελ~ 购买 订购 下单 买 購入 注文 買う 구매 주문 اشتر شراء طلب खरीद~ ऑर्डर
book reservation: reservar reserva buchen buchung buche prenota~ prenotazione заброниру~ бронир~ забронюв~ бронюв~ κρατησ~ 预订 \
    预约 予約 예약 احجز حجز बुक आरक्षण
pay payment: pagar pago paiement payer payez bezahl~ zahlung zahlen pagamento pague pagare оплат~ платеж платёж заплат~ πληρωμ~ \
    πληρωσ~ 支付 付款 支払 지불 결제 ادفع دفع भुगतान
play: reproducir reproduce jouer joue abspiel~ spielen spiele tocar riproduci~ воспроизвед~ включи проигра~ відтвор~ παιξ~ 播放 \
    再生 재생 شغل बजाएं
file: fichero archivo fichier datei~ arquivo ficheiro файл~ αρχειο αρχεια αρχείου 文件 档案 ファイル 파일 ملف ملفات फाइल फाइलें
folder directory: carpeta ordner verzeichnis diretório cartella папк~ каталог~ теки теку φακελ~ 文件夹 目录 フォルダ フォルダー \
    ディレクトリ 폴더 مجلد फ़ोल्डर फोल्डर
document: dokument~ документ~ εγγραφ~ 文档 文書 ドキュメント 書類 문서 مستند وثيقه दस्तावेज़ दस्तावेज
image picture: imagen imágenes bild bilder imagem immagin~ изображени~ картинк~ зображен~ εικον~ 图片 图像 照片 画像 写真 이미지 \
    사진 صوره صور तस्वीर चित्र फोटो
video: видео відео βιντεο 视频 動画 ビデオ 비디오 동영상 영상 فيديو वीडियो
music song: música canción canciones chanson~ musik lieder canzone canzoni музык~ песн~ музик~ пісн~ μουσικ~ τραγουδ~ 音乐 歌曲 \
    音楽 曲 歌 음악 노래 موسيقى اغنيه संगीत गाना
message: mensaje~ nachricht~ mensage~ messaggi~ сообщени~ повідомлен~ μηνυμα~ 消息 信息 讯息 メッセージ 메시지 رساله رسائل संदेश
email mail: correo courriel~ письмо письма почт~ пошт~ електронн~ 邮件 邮箱 电子邮件 メール 이메일 메일 بريد ايميل ईमेल
calendar: calendario calendrier kalender~ calendário календар~ ημερολογι~ 日历 日程 カレンダー 予定 캘린더 달력 일정 تقويم \
    कैलेंडर
event: evento eventos événement~ evènement~ veranstaltung~ termin événements событи~ поді~ εκδηλωσ~ 事件 活动 イベント 이벤트 \
    행사 حدث कार्यक्रम
meeting: reuniones besprechung~ treffen reunião riunion~ встреч~ совещани~ зустріч~ нарад~ συναντησ~ 会议 会議 ミーティング 회의 \
    미팅 اجتماع बैठक
contact: kontakt~ контакт~ επαφ~ 联系人 連絡先 연락처 جهه संपर्क
weather forecast: clima pronóstico météo wetter~ wettervorhersage previsão meteo previsioni погод~ прогноз~ καιρ~ 天气 气温 天気 \
    予報 날씨 일기예보 طقس الطقس मौसम
news: noticia~ actualités nouvelles nachrichten notícia~ notizie новост~ новин~ νεα ειδησ~ 新闻 ニュース 뉴스 اخبار الاخبار \
    समाचार खबर
map: landkarte stadtplan карт~ χαρτ~ 地图 地図 지도 خريطه नक्शा मानचित्र
route directions: ruta itinéraire wegbeschreibung percorso маршрут~ διαδρομ~ 路线 导航 経路 ルート 경로 길찾기 مسار طريق मार्ग \
    रास्ता
place location: lugar~ lieux ort orte luogo luoghi мест~ місц~ μερο~ τοποθεσ~ 地点 位置 場所 장소 위치 مكان موقع स्थान जगह
restaurant: ristorant~ ресторан~ εστιατορι~ 餐厅 饭店 餐馆 レストラン 식당 레스토랑 مطعم रेस्तरां
hotel: albergo alberghi отел~ гостиниц~ готел~ ξενοδοχ~ 酒店 宾馆 ホテル 호텔 فندق होटल
flight: vuelo vuelos vols flug flüge voo voos volo voli рейс~ авиабилет~ авіаквит~ πτησ~ 航班 机票 フライト 飛行機 항공편 비행기 \
    رحله طيران उड़ान
train: tren trenes zug züge trem trens treno treni поезд~ потяг~ поїзд~ τρεν~ 火车 列车 高铁 電車 列車 기차 열차 قطار ट्रेन रेल
ticket: boleto~ billete~ fahrkarte~ eintrittskarte~ bilhete~ bigliett~ билет~ квитки квитків квиток εισιτηρι~ 票 车票 余票 \
    チケット 切符 티켓 تذكره टिकट
price: precio precios preis~ preço~ prezzo prezzi цен~ стоимост~ цін~ τιμ~ 价格 价钱 値段 価格 가격 سعر اسعار कीमत मूल्य
stock: acción acciones aktie~ aktienkurs ações azioni акци~ акці~ μετοχ~ 股票 股价 株価 주식 주가 سهم اسهم शेयर
currency exchange: moneda divisa~ währung~ wechselkurs moeda câmbio valuta cambio валют~ курс νομισμ~ συναλλαγ~ 汇率 货币 为替 \
    通貨 환율 통화 عمله صرف मुद्रा
money: dinero argent geld dinheiro soldi деньг~ грош~ χρημα~ 金钱 お金 مال पैसे
product: produkt~ prodotto prodotti товар~ продукт~ προϊον~ 产品 商品 製品 상품 제품 منتج منتجات उत्पाद
recipe: receta~ recette~ rezept~ receita~ ricett~ рецепт~ συνταγ~ 菜谱 食谱 レシピ 레시피 وصفه रेसिपी
movie film: película~ filme filmes фильм~ кино фільм~ кіно ταινι~ 电影 映画 영화 فيلم फिल्म
book: libro libros livre livres buch bücher livro~ libri книг~ βιβλι~ 书籍 图书 书 書籍 도서 كتاب किताब पुस्तक
game: juego~ jeu jeux jogo~ gioco giochi игр~ ігр~ гру παιχνιδ~ 游戏 ゲーム 게임 لعبه खेल
doctor health: médico médecin arzt ärzte gesundheit salud santé saúde врач~ здоровь~ лікар~ здоров~ γιατρ~ υγεια~ 医生 健康 医者 \
    医師 의사 건강 طبيب صحه डॉक्टर स्वास्थ्य
job: empleo trabajo emploi emplois stelle stellen stellenangebot~ emprego~ trabalho lavoro работ~ ваканси~ робот~ ваканс~ εργασι~ \
    工作 职位 仕事 求人 직업 일자리 وظيفه नौकरी
company: empresa~ entreprise~ unternehmen firma firmen azienda aziende компани~ компані~ εταιρ~ 公司 企业 会社 企業 회사 شركه \
    कंपनी
user: usuario~ utilisateur~ benutzer~ nutzer usuário~ utente utenti пользовател~ користувач~ χρηστ~ 用户 ユーザー 사용자 مستخدم \
    उपयोगकर्ता
password: contraseña~ passwort~ kennwort senha~ парол~ κωδικ~ 密码 パスワード 비밀번호 المرور पासवर्ड
website page: página páginas webseite~ seite seiten sito сайт~ страниц~ сторінк~ ιστοσελιδ~ σελιδ~ 网站 网页 ウェブサイト ページ \
    サイト 웹사이트 웹페이지 페이지 موقع صفحه वेबसाइट पेज
database: datenbank~ datos données dados 数据库 データベース 데이터베이스 डेटाबेस
table: tabla~ tabelle~ tabela~ tabella таблиц~ πινακ~ 表格 テーブル 테이블 جدول तालिका
chart graph: gráfico~ graphique~ diagramm~ grafico grafici график~ диаграмм~ графік~ діаграм~ γραφημ~ διαγραμμ~ 图表 グラフ \
    チャート 차트 그래프 بياني चार्ट
code: código~ quellcode codice код коду κωδικα 代码 コード 코드 كود कोड
error: fehler erro erros errore errori ошибк~ помилк~ σφαλμα~ 错误 エラー 오류 에러 خطا त्रुटि
task: tarea~ tâche~ aufgabe~ tarefa~ compito compiti задач~ завдан~ εργασια 任务 タスク 작업 할일 مهمه कार्य
reminder: recordatorio~ rappel rappels erinner~ lembrete~ promemoria напомин~ напомни нагад~ υπενθυμ~ 提醒 リマインダー 알림 \
    تذكير याद
note: notiz~ notas appunti заметк~ нотатк~ σημειωσ~ 笔记 备忘 メモ ノート 메모 노트 ملاحظه टिप्पणी
time: hora heure heures uhrzeit zeit ora orario врем~ час ωρα 时间 時間 時刻 시간 وقت समय
date: fecha~ дата даты дату ημερομηνι~ 日期 日付 날짜 تاريخ तारीख दिनांक
city: ciudad~ ville villes stadt städte cidade~ città город~ міст~ πολη 城市 都市 도시 مدينه शहर
country: país países paese paesi стран~ країн~ χωρα 国家 국가 나라 دوله देश
language: idioma~ langue langues sprache~ língua línguas lingua язык~ мов~ γλωσσ~ 语言 言語 언어 لغه भाषा
text: texto~ testo testi текст~ κειμεν~ 文本 文字 テキスト 文章 텍스트 نص पाठ
number: número números numéro numéros zahl zahlen nummer~ numero числ~ номер~ αριθμ~ 数字 号码 番号 숫자 번호 رقم संख्या नंबर
address: dirección direcciones adresse~ anschrift endereço~ indirizz~ адрес~ διευθυνσ~ 地址 住所 アドレス 주소 عنوان पता
phone: teléfono~ telefon~ телефон~ τηλεφων~ 电话 手机 電話 携帯 전화 휴대폰 هاتف फोन
repository: dépôt~ репозитор~ αποθετηρι~ 仓库 代码库 リポジトリ 저장소 مستودع
issue: incidencia~ проблем~ 问题 議題 課題 이슈 مشكله समस्या";

/// Longer words without which a language cannot say much, unless English has them too. Shorter ones are too short to be like another word.
pub(super) const STOP_WORDS: &str = "\
para como cómo este esta estos estas cual cuál donde quiero puedo puedes todos todas sobre desde hasta cuando porque dame dime haz necesito \
dans avec quel quelle quels quelles tous toutes cette leur nous vous mais donc alors depuis jusque veux peux peut puis moi donne \
eine einen einem einer eines nach nicht mein meine meinen deine alle dass wenn sind kann kannst bitte oder auch durch unter zwischen möchte welche welcher welches \
uma onde quero posso você isso minha meus minhas pelo pela qual quais preciso \
della delle dello degli nella sono questo questa questi queste voglio puoi quale quali tutti tutte dove quando perché";
