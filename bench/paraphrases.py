"""Short notes, and questions about them in other words: what people ask of their own notes.

The question and its note share few words or none. The fit of scores uses the first sixteen of each list, measurements the
others; each part is a base of its own.
"""

_FITTED = 16

_ENGLISH = """The miller dresses both stones every spring. | how do I sharpen a millstone?
Visitors leave their shoes in the hall. | Can I keep my boots on inside the house?
The ferry stops running when the wind is above forty knots. | are crossings cancelled in a storm?
Grandmother hid the silver in the well before the soldiers came. | where was the cutlery kept during the war?
Paint the hull with two coats of copper before launching. | What protects the bottom of the boat from barnacles?
The choir rehearses on Thursdays at half past seven. | when does singing practice take place?
Feed the sourdough with equal parts of flour and water twice a day. | how is the starter kept alive?
Anna broke her wrist while skating on the canal. | What injury did she have on the ice?
Bees swarm in May when the hive gets too crowded. | why would a colony leave its home?
Our tent weighs less than a kilo and fits two adults. | is the shelter light enough for a hike?
The archive keeps letters at eighteen degrees and low humidity. | Which climate is right for storing old documents?
The lighthouse was automated in 1978, and the last keeper retired to Bergen. | since when has the beacon worked without staff?
Soak the beans overnight, or they stay hard. | what must be done with dried pulses before cooking?
The cellar floods each March when the snow melts. | When do we get water in the basement?
Children under six ride the carousel for free. | does my toddler need a ticket for the merry-go-round?
The old lathe needs a new belt and drips oil. | what is wrong with the machine in the workshop?
The dentist will not treat patients who arrive more than ten minutes late. | what happens if I miss the start of my appointment with the tooth doctor?
A fox took three hens last night, through a hole under the fence. | how did the chickens get killed?
The council decided to plant lime trees along the avenue. | What greenery will the street get?
Our glider was damaged when the trailer came loose on the motorway. | How did the aircraft get broken on the road?
Keep insulin in the refrigerator, never in the freezer compartment. | at which temperature should diabetics store their medicine?
The museum lends its telescopes to schools at no charge. | can pupils borrow instruments for stargazing?
After the earthquake the church tower leaned by two degrees. | which building was tilted by the tremor?
The soprano lost her voice on the evening of the premiere. | why was the singer unable to perform?
The vineyard is picked at dawn, while the grapes are cool. | What time of day does the harvest begin?
The tailor takes in trousers for twelve euros. | how much does it cost to have pants made narrower?
Pilgrims may sleep in the monastery for one night. | Is there accommodation for walkers at the abbey?
The glacier has lost a third of its length since 1900. | how much has the ice shrunk in the last century?
The violin was made in Cremona and its back is of one piece of maple. | Where does the instrument come from?
Diesel turns to gel below minus twenty, so keep the tractor in the heated barn. | Why doesn't the farm vehicle start in severe frost?
She learned Morse code from her uncle, a ship's radio operator. | who taught her to telegraph?
The baker closes for three weeks in August. | When can't I buy bread because of holidays?
Put the seedlings outside after the last frost, around the middle of May. | when is it safe to move young plants to the garden?
The bridge carries at most twelve tonnes. | can a heavy lorry drive over it?
The cat must not eat for twelve hours before the operation. | how long should my pet fast prior to surgery?
The parish register burned in 1871, so births before that are unknown. | Why are there no older records of baptisms?
Swimmers have to wear a cap in the indoor pool. | is headgear mandatory for bathers?
The apprentice gets a bonus when he passes the final examination. | what does a trainee receive after graduating?
Two sailors were rescued by helicopter off the northern cape. | how were the shipwrecked men saved?
Rinse lenses with saline, never with tap water. | what liquid is used for cleaning contacts?
The orchestra tunes to the oboe. | Which instrument gives the pitch to the others?
Wolves have returned to the valley, and shepherds buy guard dogs again. | how do farmers protect their sheep from predators?
The stained glass was taken out and buried during the bombing. | how did the windows survive the air raids?
Runners with a fever must not start in the marathon. | may I take part in the race when I am ill?
The charcoal burner watches the stack for ten days and nights. | how long must the wood smoulder?
Our well ran dry in the summer of the great drought. | when did we have no drinking water?
The carpenter joins the beams with wooden pegs instead of nails. | what fastens the timbers of the frame?
The heir sold the castle because he could not pay the taxes. | Why did the family lose its estate?
Hikers should turn back when thunder is heard. | what to do in the mountains if lightning is near?
The skipper pours a little rum into the sea before each voyage. | Which ritual does the captain observe when leaving port?"""

_CHINESE = """磨坊主每年春天都要重新凿刻两扇石磨。 | 磨盘钝了多久修整一回？
客人进门要把鞋脱在走廊里。 | 可以穿着靴子进屋吗？
风力超过八级，渡轮就停航。 | 刮大风的时候还有船过江吗？
奶奶在打仗前把银器藏进了井里。 | 家里的贵重餐具战时放在哪儿？
下水之前，船底要刷两遍铜漆。 | 怎样防止藤壶长在船身上？
合唱团每周四晚上七点半排练。 | 唱歌的人什么时候一起练习？
酸面团每天喂两次，面粉和水一样多。 | 老面怎么养才不会死？
安娜在运河上滑冰时摔断了手腕。 | 她受了什么伤？
蜂箱太挤，蜜蜂五月份就会分群。 | 蜂群为什么会离开原来的家？
我们的帐篷不到一公斤，能睡两个大人。 | 徒步带的露营装备重不重？
档案馆的信件存放在十八度、干燥的环境里。 | 旧文书适合什么样的保存条件？
灯塔一九七八年改为自动，最后一位守塔人退休了。 | 从哪年起那里不再需要人看守？
豆子要泡一夜，不然煮不软。 | 干的豆类下锅前要做什么准备？
每年三月雪化的时候，地窖都会进水。 | 地下室什么季节会被淹？
六岁以下儿童坐旋转木马免票。 | 带着三岁的宝宝玩要买票吗？
那台旧车床皮带坏了，还漏油。 | 车间里的机器出了什么毛病？
牙医不接待迟到十分钟以上的病人。 | 看牙晚到了会怎么样？
昨晚狐狸从篱笆下的洞钻进来，叼走了三只母鸡。 | 家里养的鸡是怎么没的？
镇里决定在大道两旁种椴树。 | 那条街要绿化成什么样？
拖车在高速公路上脱钩，滑翔机摔坏了。 | 飞行器在路上怎么受损的？
胰岛素要放冷藏室，不能放冷冻室。 | 糖尿病人的药该怎么保存？
博物馆把望远镜免费借给学校。 | 学生观星可以借到仪器吗？
地震以后，教堂的钟楼歪了两度。 | 哪座建筑被震斜了？
首演当晚，女高音失声了。 | 歌唱家为什么没能登台？
葡萄在清晨采摘，因为那时果子还凉。 | 果园一天里几点开始收获？
裁缝改窄一条裤子收十二块钱。 | 裤腰太肥，改一改要多少费用？
朝圣的人可以在修道院住一晚。 | 走路的香客有地方过夜吗？
从一九〇〇年到现在，冰川缩短了三分之一。 | 一百多年里冰层减少了多少？
这把小提琴产自克雷莫纳，背板是一整块枫木。 | 这件乐器是哪里做的？
零下二十度柴油会凝固，拖拉机要停在暖棚里。 | 严寒天农机为什么发动不了？
她跟着当船上报务员的叔叔学会了莫尔斯电码。 | 发电报是谁教她的？
面包房八月份关门三个星期。 | 夏天哪段时间买不到面包？
五月中旬最后一次霜冻过后再把幼苗移到室外。 | 小苗什么时候可以种到院子里？
这座桥最多承重十二吨。 | 重型货车能开过去吗？
手术前十二个小时不能给猫喂食。 | 宠物开刀以前要饿多长时间？
教区的登记册一八七一年烧毁了，更早的出生记录都没有了。 | 为什么查不到祖上受洗的资料？
室内泳池要求戴泳帽。 | 游泳的时候头上必须戴东西吗？
学徒通过结业考试可以拿到一笔奖金。 | 出师以后有什么奖励？
两名水手在北角外海被直升机救起。 | 遇难的船员是怎样获救的？
隐形眼镜用生理盐水冲洗，绝不能用自来水。 | 清洁镜片该用什么液体？
乐队按双簧管定音。 | 大家跟着哪件乐器调准音高？
狼又回到了山谷，牧羊人重新养起了护羊犬。 | 农户怎么防止羊被野兽吃掉？
轰炸期间，彩色玻璃被拆下来埋在地下。 | 教堂的花窗是怎么躲过空袭的？
发烧的选手不得参加马拉松。 | 身体不舒服还能跑比赛吗？
烧炭的人要守着窑十天十夜。 | 木头要闷烧多久才成炭？
大旱那年夏天，我们家的井干了。 | 什么时候家里没有水喝？
木匠用木钉连接房梁，不用铁钉。 | 屋架是靠什么固定的？
继承人交不起税，只好把城堡卖掉。 | 那家人为什么失去了祖产？
登山的人听到雷声就应该往回走。 | 在山上碰到闪电天气怎么办？
船长每次出航前都往海里倒一点朗姆酒。 | 起锚的时候有什么习俗？"""

Pairs = list[tuple[str, str]]


def _pairs(text: str) -> Pairs:
    pairs = (line.split(" | ") for line in text.splitlines())
    return [(note, question) for note, question in pairs]


def pairs_for_fit(*, is_chinese: bool) -> Pairs:
    """Notes and questions that the constants are fitted to."""
    return _pairs(_CHINESE if is_chinese else _ENGLISH)[:_FITTED]


def held_back_pairs(*, is_chinese: bool) -> Pairs:
    """Notes and questions to measure with."""
    return _pairs(_CHINESE if is_chinese else _ENGLISH)[_FITTED:]
