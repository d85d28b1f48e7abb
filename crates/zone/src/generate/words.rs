//! The words that labels are made of.

/// Common words in no order; [`prefix_free`] picks those that can follow each other unambiguously.
const WORDS: &str = "
able about above acid acorn actor adobe advice agent agile alarm album alert alien alley almond alone along alpha
alpine amber amigo ample anchor angel angle ankle annex antler apple april apron arcade arch arena argue armor arrange
arrow art artist ash aspen asset atlas atom attic audio august aunt author auto autumn award axis baby back bacon badge
bagel bake balance ballet ball bamboo band bank barn basil basin basket bath battle bay beach beacon bead beam bean bear
beauty beaver bed beef bell belt bench berry best beyond bike bill bingo bird birth bishop bison black blade blanket
blend bless block bloom blossom blue board boat body bolt bond bone bonus book boost boot border bottle boulder bounce
bow box brain branch brand brass brave bread breeze brick bridge bright brook broom brush bubble bucket budget buffalo
build bulb bull bundle burn bus butter button cabin cable cactus cafe cake calm camel camera camp canal candle candy cane
canoe canvas canyon cape car card cargo carol carpet carve cash castle casual catch cause cave cedar cell cement center
century cereal chain chair chalk champ change channel chapel charm chart chase cheap check cheer cheese cherry chess
chest chief child chill chip choice chorus church cider cigar cinema circle circus citrus city civic claim clap class
claw clay clean clear clerk clever cliff climb clinic clock close cloth cloud clover club coach coal coast coat cobalt
cocoa code coffee coin cold collar color comet comfort common concert cone cook cool copper coral corn corner cosmic
cost cotton couch count country couple course court cousin cover cow coyote crab cradle craft crane crash cream creek
crew crisp crop cross crowd crown cruise crystal cube cup curve custom cycle daily dairy daisy dance dark dash data dawn
day deal dear debate decade deck deep deer delta denim depth desert desk detail dial diamond diary diesel diet digit
dine dinner direct dish dock doctor dog doll dolphin domain donkey door dose double dough dove dragon drama draw dream
dress drift drill drink drive drop drum duck dune dust duty eager eagle early earn earth east easy echo edge edit effort
egg elbow elder elect elite elm ember emerald empire enamel energy engine enjoy entry equal escape estate ether evening
event ever exact exam excel exotic expert extra eye fabric face fact fair faith falcon fall fame family fancy farm fast
father fault favor feast feather feel feet felt fence fern ferry fest fever fiber fiddle field fig figure film final
finch find fire firm first fish fit five fix flag flame flash flat flavor fleet flex flint float flock flood floor flour
flow flower fluid flute fly foam focus fog foil folk food foot force forest fork form fort forum fossil found fox frame
free fresh friend frog front frost fruit fuel full fun fund fur future gain galaxy game garage garden garlic garnet gas
gate gather gear gem gentle giant gift ginger glad glass globe glory glove glow goal goat gold golf good goose gospel
grace grade grain grand grant grape graph grass gravel gray great green grid grin grip grocer ground group grove grow
guard guest guide guitar gulf guru gym habit half hall hammer hand happy harbor hard harp harvest hat hawk hazel head
heal heart heat heaven heavy hedge helm help herb hero heron high hike hill hint hip hobby hockey hold holiday home honey
honor hood hook hope horizon horn horse hotel hour house hover hub human humble humor hunt hush ice icon idea idle igloo
image impact inbox index indigo ink inlet inn input insect insight iris iron island item ivory ivy jacket jade jam jar
jasmine jazz jeep jelly jet jewel join joke jolly journey joy judge juice july jumbo jump june jungle junior jury just
karma kayak keen keep kernel kettle key kick kid kind king kiosk kitchen kite kitten kiwi knee knife knight knit knob
knot koala label lace lady lagoon lake lamb lamp lance land lane lantern lap large lark laser last latch latin laugh
laurel lava law lawn layer lead leaf league learn lease leather leave ledge left legal legend lemon lens lesson letter
level lever liberty light like lilac lily lime limit line linen link lion list little live lizard loaf loan lobby lobster
local lodge logic long look loop lord lotus loud lounge love loyal luck lumber lunar lunch lung luxury lynx lyric machine
magic magnet maid mail main maker mall mango manor maple marble march margin marina market mars mask master match math
matrix meadow meal mean measure medal media melody melon member memo mental menu merit merry metal meter method metro
middle mild mile milk mill mimic mind mine mineral mini mint minute mirror mist mix moat mobile model modern moment monk
month moon moose moral morning mosaic moss mother motion motor mount mouse mouth move movie muffin mule muscle music
mustard myth nail narrow nation native nature navy near neck nectar needle neon nerve nest net network never new nice
night nimble nine noble nod noise noon north nose notch note nova novel number nurse nut nutmeg nylon oak oasis oath oats
ocean october odd offer office oil olive omega once onion only open opera optic orange orbit orchid order organ origin
other otter ounce outer oval oven owl owner oxygen oyster pacific pack page paint pair palace palm panda panel paper
parade parcel park party pass past patch path patrol pause peace peach peak peanut pear pearl pebble pelican pen penguin
people pepper perfect period person phone photo phrase piano pick picnic piece pigeon pilot pine pink pioneer pipe pitch
pixel pizza place plaid plain plan planet plant plate play plaza plenty plum plus pocket poem poet point polar pole
polish polo pond pony pool poplar poppy porch port poster potato pottery power practice prairie praise press pretty price
pride prime print prism prize product profit project promise proof proud pulse pump punch pupil puppy pure purple puzzle
quail quarry quartz queen query quest quick quiet quill quilt quiz quota quote rabbit race rack radar radio raft rail
rain raise rally ranch range rapid rare raven ray razor reach ready real reason rebel recipe record red reef reform
region relax relay remedy rent repair reply rescue resort rest retail return reward rhythm ribbon rice rich ride ridge
right ring ripple rise risk ritual river road robin robot rock rocket rodeo roll roof room root rope rose rotor rough
round route row royal ruby rudder rug rule run rural rush rust saddle safari safe sage sail saint salad salmon salon salt
same sample sand satin sauce save savvy scale scarf scene school science scientist scope score scout screen script sea
seal search season seat second secret seed select senior sense series serve seven shade shadow shaft shake shape share
sharp shed sheep shelf shell sheriff shield shift shine ship shirt shoe shop shore short shoulder show shrimp shuttle
sibling side sierra sight sign silent silk silver simple siren sister six size skate sketch ski skill skin skirt sky
skyway slate sled sleep sleeve slice slide slim slope slow small smart smile smoke smooth snack snail snake snow soap
soccer social sock soda sofa soft solar solid solo sonic sort soul sound soup source south space spark speak speed spell
spice spider spin spiral spirit splash spoon sport spot spray spring sprout spruce square squid stable staff stage stamp
stand star state statue stay steam steel stem step stereo stick still stone stool store storm story stove strand straw
stream street string strong studio study style sugar suit summer summit sun super supply surf surprise swan sweet swift
swim swing switch symbol syrup system table tackle tactic tail talent talk tall tango tank tape target task taste taxi
tea teach team teal teddy temple ten tennis tent term test text thank theater theme theory thick thing think third
thistle thorn thread three thrive throne thumb thunder ticket tide tidy tiger tile timber time tiny tip tire titan title
toast today toe together token tomato tone tool tooth top topaz topic torch total touch tour towel tower town toy track
trade trail train trap tray treasure tree trek trend trial tribe trick trio trip trophy truck true trumpet trust truth
tube tulip tuna tundra tunnel turbo turkey turn turtle tutor tweed twelve twice twig twin twist two type ultra uncle
under union unique unit unity upper urban useful usual utopia vacuum valid valley value valve vanilla vapor vault vector
velvet vendor venue verse vessel vest vibe video view villa vine vintage violet violin virtue visa vision visit vista
vital vivid vocal vogue voice volcano volume vote vowel voyage wafer wagon waist walk wall walnut waltz warm wash watch
water wave wax way wealth weather web wedding week west wet whale wheat wheel whisper white whole wide wild willow wind
window wine wing winter wire wise wish wizard wolf wonder wood wool word work world worth wrap wren wrist write yacht
yard year yellow yes yield yoga young youth zebra zenith zero zest zigzag zinc zone zoom
";

/// The words, sorted, each once.
pub(super) fn all() -> Vec<&'static str> {
    let mut words: Vec<&str> =
        WORDS.split_whitespace().filter(|w| !super::base::GENERIC.contains(w)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The words, sorted, none the start of another: where one is, the shorter one stays if `short`,
/// otherwise the longer ones. Names of today's and 2009's generic TLDs are left out.
pub(super) fn prefix_free(short: bool) -> Vec<&'static str> {
    let words = all();
    let mut kept: Vec<&str> = Vec::with_capacity(words.len());
    for word in words {
        match kept.last() {
            Some(last) if word.starts_with(last) && short => continue,
            // In sorted order a word comes right after its own starts.
            Some(last) if word.starts_with(last) => {
                kept.pop();
            }
            _ => {}
        }
        kept.push(word);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_starts_another() {
        for short in [false, true] {
            let words = prefix_free(short);
            assert!(words.len() > 900, "{} words", words.len());
            for pair in words.windows(2) {
                assert!(pair[0] < pair[1] && !pair[1].starts_with(pair[0]), "{pair:?}");
            }
            assert!(
                words.iter().all(|w| (2..=9).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_lowercase()))
            );
        }
    }
}
