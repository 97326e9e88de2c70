//! Words of English that a search treats in their own way. All of them are general: none was taken from a catalog.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Says nothing about what is looked for: grammar, and the politeness of a request.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "\
    a about above after again against all also am an and any are aren as at be because been before being below \
    between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from \
    further had hadn has hasn have haven having he help her here hers herself him himself his how i if in into is \
    isn it its itself just let ll m me might more most must my myself need no nor not now of off on once only or \
    other our ours ourselves out over own please re s same shall shan she should shouldn so some such t than that \
    the their theirs them themselves then there these they this those through to too under until up us ve very want \
    was wasn we were weren what when where which while who whom why will with won would wouldn you your yours \
    yourself yourselves"
        .split_whitespace()
        .collect()
});

/// Says little: requests are full of it, and in a small catalog it would pass for rare.
static ROUTINE_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "\
    able actually additionally advice allow already always amazing another anyone anything appreciate around ask \
    assist assistance available based become behind believe best better big bit bring buddy bunch buying came case \
    certain choose clear come comes comfortable coming complete completely concerned consider considering couple \
    curious currently day days dear decide definitely details different difficult discover else enough ensure \
    especially even ever every everyone everything exactly example excited exciting experience explain explore extra \
    fact far favorite feel feeling fetch find finding first following friend friends full fun furthermore gain \
    gather general get gets getting give given giving go going good got great greatly guess guide guys happen happy \
    hard hear hello helpful helping hey hi hope however idea immediately important improve include included \
    including incredibly indicate individual information insights instead interested interesting involve issue keep \
    kind kindly know knowing known last lastly latest learn least like likely little long look looking looks lot \
    lots love made main make makes making manage many matter may maybe mean mention mentioned moreover much name \
    named necessary never new next nice number obtain offer often okay old one ones options order organize overall \
    part particular particularly people perfect perform person plan planning plans plus possible potential prefer \
    preferably preparing problem process properly provide provided provides providing purpose put quick quickly \
    quite really reason receive recently recommend recommendation recommendations recommended regarding regards \
    related relevant reliable require required requires result results retrieve right say see seeing seem seems show \
    showing shown since single something soon specific specifically start started still struggling stuff suggest \
    suggestion suggestions suitable suppose sure surprise take taking tell thank thanks thing things think thinking \
    thought time times today together told took top total towards tried tries try trying two type types understand \
    unique upcoming use used useful user using usually various via view wait wanted wants way ways well went \
    whatever whether within without wonder wonderful wondering word work working works world worried year years yes \
    yet"
    .split_whitespace()
    .collect()
});

/// Words that stand for the same thing or the same act in a request to a program, a group in each line.
pub(super) const SAME_MEANING: &str = "\
get fetch retrieve obtain read load
show display view list
search find lookup query discover
create add make new generate build insert
delete remove erase clear drop
update edit change modify set alter
send post submit
calculate compute estimate determine
convert transform
check verify validate test
image picture photo
start begin launch run execute
stop end terminate
write save store
read open
move rename
copy duplicate clone
download fetch export
upload import
enable activate
disable deactivate
draw render paint
recommend suggest
book reserve
schedule plan
reply respond answer
merge combine join
split divide extract
explain describe
analyze examine inspect
cancel abort
monitor watch track
choose select pick
fix repair
login authenticate
encode encrypt
decode decrypt
summarize shorten
buy purchase order
movie film cinema
car vehicle automobile
trip travel vacation holiday tour journey
hotel accommodation lodging resort
price cost fee rate
weather forecast climate
email mail
phone telephone mobile
job career employment vacancy
music song track audio
news headline article
stock share equity
finance financial investment invest money
health medical medicine
doctor physician
law legal lawyer
recipe cook cuisine dish meal food
restaurant dining
translate translation language
buy purchase shop shopping order
product item goods
document doc file
folder directory
house home property estate apartment
learn education course study lesson
teach tutor teacher
currency exchange
summarize summary abstract
calendar schedule appointment event meeting
user account member profile
message chat sms text
location place position coordinates
address street
distance route direction map navigate
video clip
website site webpage web url link page
repository repo
bug issue ticket
task todo reminder
note memo
picture image photo photograph
discount coupon deal promo offer
advertisement ad advertising
customer client
company business firm
salary wage pay income
crypto cryptocurrency bitcoin
paper research publication scholar academic
book novel
author writer
game play
sport match team league
podcast episode
quote quotation
joke humor funny
plane flight airline airport
train rail railway
ship vessel boat
bike bicycle
person people human
child kid
animal pet
city town
nation country
time clock hour
date day
picture painting art artwork drawing
plot chart graph diagram visualize
table spreadsheet excel sheet
presentation slide powerpoint
code program script
software application app
error exception failure
log history
password credential
secure security safe
hack vulnerability malicious
domain dns
server host
database db sql
area size surface
speed velocity
weight mass
mean average
big large
fast quick
remaining left balance
tax taxation
loan mortgage credit
insurance policy
gift present
clothes fashion outfit apparel
style design
color colour
gym fitness workout exercise
diet nutrition calorie
horoscope zodiac astrology
star constellation astronomy
earth planet
quiz trivia question
survey poll
vote election
tweet twitter
compare comparison difference
rank ranking leaderboard standing
rating review
idea brainstorm inspiration
keyword seo
resume cv
pollution air
package parcel shipment
track tracking follow
rent rental lease
equation formula
random shuffle
grammar spelling proofread
synonym thesaurus
definition meaning dictionary define
feedback comment
notify notification alert
trend trending popular
near nearby around
crime criminal
gene genetic dna
plant flower
university college school
celebrity actor
soccer football
booking reservation
recommendation suggestion
solve solution
configuration config cfg
information info
message msg
image img
database db
calculate calc
application app
temperature temp
document doc docs documentation
repository repo
authentication auth authenticate
identifier id
statistics stats statistic
parameter param
environment env
directory dir
number num
average avg
maximum max
minimum min
specification spec
language lang
command cmd
error err
request req
response resp
source src
destination dest
administrator admin
synchronize sync
development dev
production prod
execute exec
text txt
bought buy
sold sell
sent send
wrote written write
found find
gave given give
made make
built build
drew drawn draw
ran run
paid pay
spent spend
flew flown fly
drove driven drive
chose chosen choose
won win
lost lose
mathematics math
laboratory lab
photograph photo
advertisement ad
television tv
";

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

pub(super) fn is_routine(word: &str) -> bool {
    ROUTINE_WORDS.contains(word)
}

/// All words that are known here to be English.
#[cfg(test)]
pub(super) fn english() -> impl Iterator<Item = &'static str> {
    STOP_WORDS.iter().chain(ROUTINE_WORDS.iter()).copied().chain(SAME_MEANING.split_whitespace())
}
